<?php
$body = json_encode([
    'data_set_id' => 'shop',
    'timestamp' => time(),
    'event_type' => 'purchase',
    'identifiers' => ['email_sha256' => '973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b'],
    'value' => 129.95,
    'currency_code' => 'USD',
]);
$key = bin2hex(random_bytes(16)); // the same with every try
for ($attempt = 0; $attempt < 6; $attempt++) {
    $retryAfter = 0;
    $curl = curl_init(getenv('SLUICE_URL') . '/v1/events');
    curl_setopt_array($curl, [
        CURLOPT_POSTFIELDS => $body,
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 30,
        CURLOPT_HTTPHEADER => [
            'Authorization: Bearer ' . getenv('SLUICE_API_KEY'),
            'Content-Type: application/json',
            'Idempotency-Key: ' . $key,
        ],
        CURLOPT_HEADERFUNCTION => function ($curl, $line) use (&$retryAfter) {
            if (stripos($line, 'Retry-After:') === 0) {
                $retryAfter = (int) substr($line, 12);
            }
            return strlen($line);
        },
    ]);
    $answer = curl_exec($curl);
    $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE); // 0 without an answer
    if ($status !== 0 && $status !== 429 && $status < 500) {
        echo $status, ' ', $answer, "\n";
        exit($status === 200 ? 0 : 1);
    }
    usleep(max(random_int(0, 1000000 << $attempt), 1000000 * $retryAfter));
}
exit("no receipt after six tries\n");
