import hashlib

address = " Test@Example.com ".strip().lower()
print(hashlib.sha256(address.encode()).hexdigest())
