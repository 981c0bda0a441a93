package grpclink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// unixPrefix begins an address that is the path of a Unix socket.
const unixPrefix = "unix:"

// checkListen returns what is wrong with an address to listen on.
func checkListen(address string) error {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		if path == "" {
			return errors.New("no Unix socket is named")
		}
		return nil
	}
	_, _, err := net.SplitHostPort(address)
	return err
}

// listen listens on an address. A Unix socket that nobody listens on any more is replaced.
func listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, unixPrefix)
	if !ok {
		return net.Listen("tcp", address)
	}
	if other, err := net.Dial("unix", path); err == nil {
		return nil, errors.Join(fmt.Errorf("something listens on %s already", path), other.Close())
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return net.Listen("unix", path)
}

// over returns what a connection is made of by a configuration of TLS; nil is plaintext.
func over(c *tls.Config) credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c)
}
