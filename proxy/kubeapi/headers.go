package kubeapi

import (
	"net/http"
	"slices"
	"strings"
)

// asked is what is left out of requests: all that says, or claims, on whose behalf they come.
// A name that ends in "-" stands for all that begin so. What concerns one connection only is
// left out by the library.
var asked = []string{
	"authorization",
	"cookie",
	"forwarded",
	"impersonate-",
	"proxy-",
	"x-forwarded-",
	"x-real-ip",
	"x-remote-",
}

// answered is what is left out of what a spoke answers: what would have the caller's client do
// something for the spoke later on.
var answered = []string{
	"alt-svc",
	"proxy-",
	"set-cookie",
	"strict-transport-security",
}

// drop removes the headers of a list.
func drop(h http.Header, list []string) {
	for name := range h {
		lower := strings.ToLower(name)
		if slices.ContainsFunc(list, func(out string) bool {
			return lower == out || strings.HasSuffix(out, "-") && strings.HasPrefix(lower, out)
		}) {
			delete(h, name)
		}
	}
}

// Websockets say what they speak in this header, and those of browsers their bearer token too,
// behind this.
const (
	protocols   = "Sec-Websocket-Protocol"
	tokenPrefix = "base64url.bearer.authorization.k8s.io."
)

// strip removes from a request's headers all that says on whose behalf it comes.
func strip(h http.Header) {
	drop(h, asked)
	var kept []string
	for _, line := range h.Values(protocols) {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); one != "" && !strings.HasPrefix(strings.ToLower(one), tokenPrefix) {
				kept = append(kept, one)
			}
		}
	}
	h.Del(protocols)
	if len(kept) > 0 {
		h.Set(protocols, strings.Join(kept, ", "))
	}
}
