curl -sS --fail-with-body "$SLUICE_URL/v1/submissions/$SUBMISSION_ID" -H "Authorization: Bearer $SLUICE_API_KEY"
