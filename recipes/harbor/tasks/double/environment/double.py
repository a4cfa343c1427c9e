import sys

print(int(sys.argv[1]) // 2 * 4)
