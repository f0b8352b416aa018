def binary_search(arr, target):
    left, right = 0, len(arr) - 1
    
    while left <= right:
        mid = (left + right) // 2
        if arr[mid] == target:
            return mid
        elif arr[mid] < target:
            left = mid + 1
        else:
            right = mid - 1
    
    return -1

# Test cases
test_cases = [
    ([], 5, -1, "Empty array"),
    ([1], 1, 0, "Single element - found"),
    ([1], 2, -1, "Single element - not found"),
    ([1, 2, 3, 4, 5], 3, 2, "Standard case - middle element"),
    ([1, 2, 3, 4, 5], 1, 0, "First element"),
    ([1, 2, 3, 4, 5], 5, 4, "Last element"),
    ([1, 2, 3, 4, 5], 6, -1, "Target larger than all"),
    ([1, 1, 2, 2, 3, 3], 2, 2, "Duplicate values"),
]

print("Binary Search Test Results")
print("=" * 70)
passed = 0

for arr, target, expected, description in test_cases:
    result = binary_search(arr, target)
    status = "✓ PASS" if result == expected else "✗ FAIL"
    
    if result == expected:
        passed += 1
    
    print(f"{status} | {description:30} | Expected: {expected:3}, Got: {result:3}")

print("=" * 70)
print(f"Results: {passed}/{len(test_cases)} tests passed")
