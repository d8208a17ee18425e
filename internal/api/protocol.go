package api

import (
	"bytes"
	"strconv"

	"sluice/event"
)

// net/http answers by itself what it cannot read as HTTP, in plain text and past every handler. These are the bytes that
// its answers have in common; our own answers are JSON and have other headers. A version of Go that writes other bytes
// costs the error object, not the answer.
const (
	httpErrorHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	httpOnHTTPS   = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)

// protocolError says with which status net/http answers, if b is an answer of its own.
func protocolError(b []byte) (line string, message string, ok bool) {
	if len(b) < len("HTTP/1.1 400") || len(b) > 512 || b[9] != '4' && b[9] != '5' || !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return "", "", false
	}
	if string(b) == httpOnHTTPS {
		return "400 Bad Request", "The request is not encrypted; this address takes HTTPS.", true
	}
	end := bytes.IndexByte(b, '\r')
	if end < 0 || !bytes.HasPrefix(b[end:], []byte(httpErrorHead)) {
		return "", "", false
	}
	switch string(b[9:12]) {
	case "400":
		return "400 Bad Request", "The request is not valid HTTP.", true
	case "431":
		return "431 Request Header Fields Too Large", "The headers of the request are larger than 8 KiB.", true
	case "501":
		return "501 Not Implemented", "The request has a Transfer-Encoding other than chunked.", true
	case "505":
		return "505 HTTP Version Not Supported", "The request has a version of HTTP that is not spoken here.", true
	}
	return "", "", false
}

// Write writes to the connection. Where net/http answers by itself, the error object takes the place of its text. Inside
// TLS that cannot be done: what is written there is encrypted already.
func (c *limitedConn) Write(b []byte) (int, error) {
	line, message, ok := protocolError(b)
	if !ok {
		return c.Conn.Write(b)
	}
	id := newRequestID()
	c.server.counts.codes[codeIndex[event.MalformedRequest]].Add(1)
	if _, ok := c.server.sample.take(sampleKey{code: event.MalformedRequest}, c.server.Now()); ok {
		c.server.Log.Info("request rejected", "code", string(event.MalformedRequest), "status", line[:3], "request_id", id)
	}
	r := reject(event.MalformedRequest, message)
	body := r.append(nil, id)
	answer := "HTTP/1.1 " + line + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: " + id + "\r\nConnection: close\r\n\r\n" + string(body)
	if _, err := c.Conn.Write([]byte(answer)); err != nil {
		return 0, err
	}
	return len(b), nil
}
