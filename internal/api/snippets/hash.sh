# tr lowers ASCII letters only
printf %s ' Test@Example.com ' | tr -d '[:space:]' | tr '[:upper:]' '[:lower:]' | sha256sum | cut -c1-64
