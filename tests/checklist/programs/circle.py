import math
radius = 5
area = math.pi * radius ** 2
print(f'Circle area: {area:.2f}')
