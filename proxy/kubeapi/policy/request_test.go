package policy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestsAreReadAsAnAPIServerDoes(t *testing.T) {
	for text, want := range map[string]Request{
		"GET /":                                                      {Verb: "get", Path: "/"},
		"GET /apis/apps/v1/":                                         {Verb: "get", Path: "/apis/apps/v1"},
		"GET /api/v1/nodes":                                          {Verb: "list", Version: "v1", Resource: "nodes"},
		"GET /api/v1/nodes?watch":                                    {Verb: "watch", Version: "v1", Resource: "nodes"},
		"GET /api/v1/nodes?watch=False":                              {Verb: "list", Version: "v1", Resource: "nodes"},
		"GET /api/v1/nodes?watch=0&watch=1":                          {Verb: "list", Version: "v1", Resource: "nodes"},
		"GET /api/v1/nodes/n?watch=1":                                {Verb: "get", Version: "v1", Resource: "nodes", Name: "n"},
		"GET /api/v1/namespaces":                                     {Verb: "list", Version: "v1", Resource: "namespaces"},
		"GET /api/v1/namespaces/a":                                   {Verb: "get", Version: "v1", Resource: "namespaces", Name: "a"},
		"PUT /api/v1/namespaces/a/finalize":                          {Verb: "update", Version: "v1", Resource: "namespaces", Name: "a", Subresource: "finalize"},
		"GET /api/v1/namespaces/a/pods":                              {Verb: "list", Version: "v1", Resource: "pods", Namespace: "a"},
		"DELETE /apis/apps/v1/namespaces/a/deployments":              {Verb: "deletecollection", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "a"},
		"DELETE /apis/apps/v1/namespaces/a/deployments/b":            {Verb: "delete", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "a", Name: "b"},
		"GET /api/v1/namespaces/a/pods/b/proxy/x/y":                  {Verb: "get", Version: "v1", Resource: "pods", Namespace: "a", Name: "b", Subresource: "proxy/x/y"},
		"HEAD /apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab": {Verb: "get", Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Name: "a:b"},
	} {
		method, target, _ := strings.Cut(text, " ")
		u, err := url.Parse(target)
		require.NoError(t, err)
		got, err := Parse(method, u)
		require.NoError(t, err, text)
		got.Query = nil
		require.Equal(t, want, got, text)
	}
}

// FuzzParse holds that a request is its path, segment by segment, or an error.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"/api/v1/namespaces/a/pods/b/log?follow=1", "/apis/apps/v1/", "/api/v1/namespaces/a%2f..", "/version", "//", "/api/v1/watch/pods"} {
		f.Add(http.MethodGet, path)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r, err := Parse(method, u)
		if err != nil {
			require.Zero(t, r)
			return
		}
		require.NotEmpty(t, r.Verb)
		require.Equal(t, strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(pathOf(r), "/"))
		require.NotContains(t, strings.ToLower(u.EscapedPath()), "%2f")
		rule := Decide(r, "Any", Terms{})
		require.NotEqual(t, "none", rule.Name)
	})
}

// pathOf returns the path that a request was read from.
func pathOf(r Request) string {
	if r.Path != "" {
		return r.Path
	}
	parts := []string{"", "api", r.Version}
	if r.Group != "" {
		parts = []string{"", "apis", r.Group, r.Version}
	}
	if r.Namespace != "" {
		parts = append(parts, "namespaces", r.Namespace)
	}
	for _, part := range []string{r.Resource, r.Name, r.Subresource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}
