<?php
$address = trim(' Test@Example.com ');
if (preg_match('/[^ -~]/', $address) && !extension_loaded('mbstring')) {
    throw new RuntimeException('This address has letters beyond ASCII: install mbstring.');
}
$address = extension_loaded('mbstring') ? mb_strtolower($address, 'UTF-8') : strtolower($address);
echo hash('sha256', $address), "\n";
