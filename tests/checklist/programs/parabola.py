import matplotlib.pyplot as plt
x = range(-10, 11)
y = [i**2 for i in x]
plt.plot(x, y)
plt.title('y = x²')
plt.show()
