package admin

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"
)

// guard refuses what a page in a browser could send: it is on the loopback interface too,
// but may not ask in its user's name.
func guard(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !local(r.Host):
			say(w, http.StatusForbidden, Failure{fmt.Sprintf("admin: host %q is not of the loopback interface", r.Host)})
		case r.Method != http.MethodGet && !isJSON(r):
			say(w, http.StatusUnsupportedMediaType, Failure{"admin: changes are asked for with content type application/json"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// socketHost is the host in requests over a Unix socket, where there is none.
const socketHost = "admin.sock"

// local reports whether a host is the loopback interface, by its address or as localhost,
// or a socket. A name that merely leads there may be an attacker's.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || host == socketHost || ip != nil && ip.IsLoopback()
}

// Unix begins an address that is a Unix socket, before its absolute path.
const Unix = "unix://"

// Address returns the network and address to listen on, or to connect to, that text stands
// for: host:port of the loopback interface, or unix:///path.
func Address(text string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(text, Unix); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", errors.New("the path of a socket is absolute: unix:///run/admin.sock")
		}
		return "unix", path, nil
	}
	if _, _, err := net.SplitHostPort(text); err != nil {
		return "", "", fmt.Errorf("%q is no address", text)
	}
	if !local(text) {
		return "", "", fmt.Errorf("%q can be reached from outside", text)
	}
	return "tcp", text, nil
}
