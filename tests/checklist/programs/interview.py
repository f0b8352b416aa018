name = input('Enter your name: ')
age = int(input('Enter your age: '))
city = input('Enter your city: ')

print(f'Hello {name}!')
print(f'You are {age} years old and live in {city}.')

if age >= 18:
    print('You are an adult.')
else:
    print(f'You will be an adult in {18 - age} years.')
