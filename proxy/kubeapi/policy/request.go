package policy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Request is what a method and a URL ask of an API server, as RBAC would say it.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Path        string // of what is no resource, such as discovery; else empty
	Group       string // of the API; empty is the core
	Version     string
	Resource    string // in the plural, as in the path
	Subresource string // with whatever follows it in the path
	Namespace   string
	Name        string
	Query       url.Values
}

// verbs are those of methods on an object and on a collection. What reads a collection lists
// or watches it.
var verbs = map[string]struct{ object, collection string }{
	http.MethodGet:    {"get", "list"},
	http.MethodHead:   {"get", "list"},
	http.MethodPost:   {"create", "create"},
	http.MethodPut:    {"update", "update"},
	http.MethodPatch:  {"patch", "patch"},
	http.MethodDelete: {"delete", "deletecollection"},
}

// Parse reads a request as an API server does. What servers could read in different ways is an
// error: segments that are empty, dots or hold an encoded slash, and the paths that say the
// verb, such as /api/v1/watch/pods.
func Parse(method string, u *url.URL) (Request, error) {
	verb, ok := verbs[method]
	if !ok {
		return Request{}, fmt.Errorf("policy: %q is no method of the API", method)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Request{}, fmt.Errorf("policy: read the query: %w", err)
	}
	parts, err := segments(u)
	if err != nil {
		return Request{}, err
	}
	r := Request{Verb: verb.object, Query: query}
	switch {
	case len(parts) > 2 && parts[0] == "api":
		r.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		r.Group, r.Version, parts = parts[1], parts[2], parts[3:]
	default:
		r.Path = "/" + strings.Join(parts, "/")
		return r, nil
	}
	if strings.HasSuffix(u.Path, "/") {
		return Request{}, errors.New("policy: the path of a resource ends in a slash")
	}
	if parts[0] == "watch" || parts[0] == "proxy" {
		return Request{}, fmt.Errorf("policy: the path says the verb %s", parts[0])
	}
	r.locate(parts)
	if r.Name == "" {
		if r.Verb = verb.collection; r.Verb == "list" && watches(query) {
			r.Verb = "watch"
		}
	}
	return r, nil
}

// locate reads what follows group and version.
func (r *Request) locate(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource, parts = parts[0], parts[1:]
	if len(parts) > 0 {
		r.Name, parts = parts[0], parts[1:]
	}
	r.Subresource = strings.Join(parts, "/")
}

// segments splits a path. One slash at the end is left out.
func segments(u *url.URL) ([]string, error) {
	if !strings.HasPrefix(u.Path, "/") {
		return nil, errors.New("policy: the path does not begin with a slash")
	}
	if u.RawPath != "" && strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return nil, errors.New("policy: the path has an encoded slash")
	}
	if u.Path == "/" {
		return nil, nil
	}
	parts := strings.Split(strings.TrimSuffix(u.Path[1:], "/"), "/")
	if slices.ContainsFunc(parts, odd) {
		return nil, errors.New("policy: the path has a segment that servers read differently")
	}
	return parts, nil
}

// odd reports whether a segment can be no name of anything.
func odd(segment string) bool {
	return segment == "" || segment == "." || segment == ".." ||
		strings.ContainsFunc(segment, func(r rune) bool { return r <= ' ' || r == '%' || r == '\\' || r == 0x7f || r == 0xfffd })
}

// watches reports whether a query asks for a watch, where the first value counts, and whatever
// is not false is true.
func watches(query url.Values) bool {
	values, ok := query["watch"]
	return ok && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// String says what is asked, such as "get pods/log web-0 in shop".
func (r Request) String() string {
	if r.Path != "" {
		return r.Verb + " " + r.Path
	}
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// secret reports whether Secrets are asked for.
func (r Request) secret() bool { return r.Group == "" && r.Resource == "secrets" }
