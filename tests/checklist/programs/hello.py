print('Hello, World!')
print(f'2 + 2 = {2 + 2}')
