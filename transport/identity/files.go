package identity

import (
	"crypto/tls"
	"fmt"
	"os"
	"time"
)

// Files names the PEM files that one side of a connection with mutual TLS needs.
type Files struct {
	CA   string // certificates that the peer's must be signed by
	Cert string // own certificate, with the chain that leads to its CA
	Key  string // its private key
}

// Read reads them, as they are now.
func (f Files) Read() (b Bundle, err error) {
	for _, text := range []struct {
		to         *Text
		what, file string
	}{{&b.CA, "CA", f.CA}, {&b.Cert, "certificate", f.Cert}, {&b.Key, "key", f.Key}} {
		if *text.to, err = ReadFile(text.what, text.file); err != nil {
			return Bundle{}, err
		}
	}
	return b, nil
}

// ReadFile reads the Text in a file, which is a what.
func ReadFile(what, file string) (Text, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return Text{}, fmt.Errorf("identity: read %s: %w", what, err)
	}
	return Text{Where: file, PEM: pem}, nil
}

// Credentials are those in the files. now is what expiry is judged by.
func (f Files) Credentials(now time.Time) (*Credentials, error) {
	b, err := f.Read()
	if err != nil {
		return nil, err
	}
	return NewCredentials(b, now)
}

// Client returns the configuration of a client that trusts only servers with a certificate
// of the CA. It stays as the files are now.
func (f Files) Client(now time.Time) (*tls.Config, error) {
	c, err := f.Credentials(now)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{*c.get().cert},
		RootCAs:      c.get().pool,
	}, nil
}
