import os, urllib.request

request = urllib.request.Request(
    os.environ["SLUICE_URL"] + "/v1/submissions/" + os.environ["SUBMISSION_ID"],
    headers={"Authorization": "Bearer " + os.environ["SLUICE_API_KEY"]},
)
with urllib.request.urlopen(request, timeout=30) as answer:
    print(answer.status, answer.read().decode())
