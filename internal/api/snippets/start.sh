now=$(date +%s)
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
curl -sS --fail-with-body "$SLUICE_URL/v1/events" --retry 5 --retry-connrefused \
  -H "Authorization: Bearer $SLUICE_API_KEY" \
  -H "Content-Type: application/json" \
  -H "Idempotency-Key: $key" \
  -d 'EVENT'
