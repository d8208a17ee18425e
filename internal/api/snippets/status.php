<?php
$curl = curl_init(getenv('SLUICE_URL') . '/v1/submissions/' . getenv('SUBMISSION_ID'));
curl_setopt_array($curl, [
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . getenv('SLUICE_API_KEY')],
]);
$answer = curl_exec($curl);
echo curl_getinfo($curl, CURLINFO_RESPONSE_CODE), ' ', $answer, "\n";
