package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newHealth asks a server on this machine how it is. Containers have no other program to ask with.
func newHealth() *cobra.Command {
	var ops, cert string
	var live bool
	wait := 3 * time.Second // arbitrary; under what container runtimes allow a check by default
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the server on this machine whether it takes events; for health checks of containers",
		Long: "Asks /readyz of the operators' listener, or /livez with --live. " +
			`Exits with 0 if the answer is 200 and prints it,
else with 1 and the reason. It takes the same settings as serve, so that it needs no arguments where the
server is set by environment variables.`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&ops, "ops", "127.0.0.1:8081", "address of the operators' listener, as given to serve")
	f.StringVar(&cert, "ops-tls-cert", "", "as given to serve; the check uses TLS if it is set")
	f.BoolVar(&live, "live", false, "ask only whether the process answers")
	f.DurationVar(&wait, "wait", wait, "how long to wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), wait)
		defer cancel()
		url, err := healthURL(ops, cert != "", live)
		if err != nil {
			return err
		}
		text, err := askHealth(ctx, url)
		if err != nil {
			return failed(err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), text)
		return nil
	}
	return cmd
}

// healthURL is where a listener on this machine is asked. One on all addresses is asked on loopback.
func healthURL(ops string, secure, live bool) (string, error) {
	host, port, err := net.SplitHostPort(ops)
	if err != nil || port == "" {
		return "", errors.New("--ops is not an address with a port: there is no listener to ask")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	scheme, path := "http", "/readyz"
	if secure {
		scheme = "https"
	}
	if live {
		path = "/livez"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + path, nil
}

func askHealth(ctx context.Context, url string) (string, error) {
	// The certificate names the service, not this machine. Nothing is sent, and the answer is no secret.
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	text := strings.TrimSpace(string(b))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return text, nil
}
