package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Endpoint is a gRPC server and how to prove who calls it. Its errors begin with the
// name of the field at fault, as YAML and flags have it.
type Endpoint struct {
	// Address is host:port, or a URL of a resolver such as unix:/run/autosched.
	Address string `yaml:"address"`
	// CA is a PEM file of the authority of the server's certificate, or SystemRoots. It
	// encrypts the connection with TLS 1.3; without it the connection is plain.
	CA string `yaml:"tls-ca"`
	// Cert and Key are PEM files of the client certificate and its private key.
	Cert string `yaml:"tls-cert"`
	Key  string `yaml:"tls-key"`
	// TokenFile holds one line, a bearer token. It is not sent unencrypted except to a
	// loopback address.
	TokenFile string `yaml:"token-file"`
}

// SystemRoots is an Endpoint.CA that stands for the authorities of the system.
const SystemRoots = "system"

// Check returns the fault of the fields. It reads no file.
func (e Endpoint) Check() error {
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil && !strings.Contains(e.Address, ":/") { // as in unix:/run/autosched
		return fmt.Errorf("server: %q is not host:port", e.Address)
	}
	switch {
	case (e.Cert == "") != (e.Key == ""):
		return errors.New("tls-cert and tls-key: one is missing")
	case e.Cert != "" && e.CA == "":
		return fmt.Errorf("tls-cert: needs tls-ca, the authority of the server's certificate, or tls-ca %s",
			SystemRoots)
	case e.TokenFile != "" && e.CA == "" && !Loopback(host):
		return fmt.Errorf("token-file: needs tls-ca: a token is not sent unencrypted to %s", e.Address)
	}
	return nil
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Dial checks the fields and reads the files. The first call connects. Certificates and
// tokens are read again for every connection and call, so that they can be replaced
// under a running client.
func (e Endpoint) Dial(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if e.CA != "" {
		config, err := e.TLS()
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(config)
	}
	retry := backoff.DefaultConfig
	retry.MaxDelay = 2 * time.Second
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 5 * time.Second}),
		// Finds a server that no longer answers.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 20 * time.Second})}
	if e.TokenFile != "" {
		if _, err := readToken(e.TokenFile); err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(tokenFile{e.TokenFile, e.CA != ""}))
	}
	conn, err := grpc.NewClient(e.Address, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return conn, nil
}

// TLS is the configuration of an encrypted connection, for other protocols of the server,
// too. The CA must be set.
func (e Endpoint) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if e.CA != SystemRoots {
		text, err := os.ReadFile(filepath.Clean(e.CA))
		if err != nil {
			return nil, fmt.Errorf("tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls-ca: %s has no certificate in PEM", e.CA)
		}
	}
	if e.Cert != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
			if err != nil {
				return nil, fmt.Errorf("tls-cert and tls-key: %w", err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return config, nil
}

// readToken reads a token, without the blanks around it.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "", fmt.Errorf("token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("token-file: %s is not one line with a token", path)
	}
	return token, nil
}

// tokenFile sends the token of a file with every call.
type tokenFile struct {
	path      string
	encrypted bool
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(t.path)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]. Plain
// connections must be to a loopback address.
func (t tokenFile) RequireTransportSecurity() bool { return t.encrypted }
