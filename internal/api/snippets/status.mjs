const answer = await fetch(`${process.env.SLUICE_URL}/v1/submissions/${process.env.SUBMISSION_ID}`, {
  headers: { Authorization: `Bearer ${process.env.SLUICE_API_KEY}` },
});
console.log(answer.status, await answer.text());
