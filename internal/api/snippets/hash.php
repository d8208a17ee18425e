<?php
$address = trim(' Test@Example.com ');
$address = function_exists('mb_strtolower') ? mb_strtolower($address, 'UTF-8') : strtolower($address);
echo hash('sha256', $address), "\n";
