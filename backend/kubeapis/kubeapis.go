// Package kubeapis asks an API server of which version it is, and what it serves.
//
// The discovery client of client-go can tell that as well. But it knows every type of Kubernetes
// and of OpenAPI beside, and whoever links it carries a hundred packages that are set up when a
// program starts, and stay in its memory: a sixth of what an idle agent takes. What is asked
// here are five paths, whose answers are JSON of types that are part of every client.
package kubeapis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// patience is how long an API server may take to answer where the configuration does not say.
const patience = 32 * time.Second

// A Client asks one API server.
type Client struct{ rest rest.Interface }

// New returns a Client that asks by an HTTP client of the configuration's; nil is one of its own.
// It does not reach out.
func New(cfg *rest.Config, by *http.Client) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("kubeapis: a REST config is needed")
	}
	own := rest.CopyConfig(cfg)
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // what refusals are written in
	own.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	own.Timeout = cmp.Or(own.Timeout, patience)
	var err error
	if by == nil {
		if by, err = rest.HTTPClientFor(own); err != nil {
			return nil, fmt.Errorf("kubeapis: %w", err)
		}
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(own, by)
	if err != nil {
		return nil, fmt.Errorf("kubeapis: %w", err)
	}
	return &Client{client}, nil
}

// Version returns the API server's version.
func (c *Client) Version(ctx context.Context) (v version.Info, err error) {
	return v, c.get(ctx, "/version", "application/json", &v)
}

// Resources returns what is served of one version of a group; apierrors.IsNotFound if it is not
// served.
func (c *Client) Resources(ctx context.Context, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var list metav1.APIResourceList
	err := c.get(ctx, path, "application/json", &list)
	return list.APIResources, err
}

// get reads an answer.
func (c *Client) get(ctx context.Context, path, accept string, into any) error {
	answer := c.rest.Get().AbsPath(path).SetHeader("Accept", accept).Do(ctx)
	err := answer.Error()
	if err == nil {
		var text []byte
		if text, err = answer.Raw(); err == nil {
			err = json.Unmarshal(text, into)
		}
	}
	if err != nil {
		return fmt.Errorf("kubeapis: read %s: %w", path, err)
	}
	return nil
}

// aggregated is what is accepted of an API server that tells all at once, which those before
// Kubernetes 1.27 do not.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// An index is the answer to what there is at all: everything, or the versions that are to be asked
// for one by one.
type index struct {
	metav1.TypeMeta
	Items    []apidiscovery.APIGroupDiscovery // of everything
	Versions []string                         // of the group without a name
	Groups   []metav1.APIGroup
}

// All returns what is served, version by version of each group. Those that do not answer are left
// out.
func (c *Client) All(ctx context.Context) (all []metav1.APIResourceList, err error) {
	for _, path := range []string{"/api", "/apis"} {
		var i index
		err := c.get(ctx, path, aggregated, &i)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // then nothing is to be had there
			continue
		case err != nil:
			return nil, err
		case i.Kind == "APIGroupDiscoveryList":
			all = append(all, told(i.Items)...)
			continue
		}
		for _, gv := range i.each() {
			served, err := c.Resources(ctx, gv)
			if ctx.Err() != nil {
				return nil, err
			}
			if err == nil {
				all = append(all, metav1.APIResourceList{GroupVersion: gv.String(), APIResources: served})
			}
		}
	}
	return all, nil
}

// each returns the versions that are to be asked for.
func (i index) each() (all []schema.GroupVersion) {
	for _, v := range i.Versions {
		all = append(all, schema.GroupVersion{Version: v})
	}
	for _, g := range i.Groups {
		for _, v := range g.Versions {
			all = append(all, schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	return all
}

// told returns what was told all at once. Of a version that does not answer now it is stale.
func told(groups []apidiscovery.APIGroupDiscovery) (all []metav1.APIResourceList) {
	for _, g := range groups {
		for _, v := range g.Versions {
			if v.Freshness == apidiscovery.DiscoveryFreshnessStale {
				continue
			}
			list := metav1.APIResourceList{GroupVersion: schema.GroupVersion{Group: g.Name, Version: v.Version}.String()}
			for _, r := range v.Resources {
				if r.ResponseKind != nil {
					list.APIResources = append(list.APIResources, metav1.APIResource{
						Name: r.Resource, Kind: r.ResponseKind.Kind, Namespaced: r.Scope == apidiscovery.ScopeNamespace, Verbs: r.Verbs,
					})
				}
			}
			all = append(all, list)
		}
	}
	return all
}
