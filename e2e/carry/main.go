// Command carry carries Applications from one side to the other, as two Stores and the
// rules between them would. It serves e2e/oracle, which is built with Argo CD's libraries
// and so cannot be built with ours.
//
// It reads requests from its standard input and writes an answer to each, as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/argocd-fabric/argocd-agent/backend/kubestore"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A request is an object of one side, and what the other side has of it.
type request struct {
	Mode   string           `json:"mode"`
	To     string           `json:"to"` // "principal" or "agent"
	Object json.RawMessage  `json:"object"`
	Onto   *json.RawMessage `json:"onto"` // null to create the copy
}

// An answer is the copy that is created, or the JSON merge patch that the copy gets.
type answer struct {
	Created json.RawMessage `json:"created,omitempty"`
	Patch   json.RawMessage `json:"patch,omitempty"`
	Error   string          `json:"error,omitempty"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var q request
		err := in.Decode(&q)
		if errors.Is(err, io.EOF) {
			return
		}
		var a answer
		if err == nil {
			a, err = carry(q)
			if err != nil {
				a = answer{Error: err.Error()}
			}
			err = out.Encode(a)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "carry:", err)
			os.Exit(1)
		}
	}
}

func carry(q request) (answer, error) {
	mode, ok := resource.ParseMode(q.Mode)
	if !ok {
		return answer{}, fmt.Errorf("mode %q", q.Mode)
	}
	to := resource.Principal
	if q.To == resource.Agent.String() {
		to = resource.Agent
	}
	original, _, err := read(to.Peer(), q.Object)
	if err != nil {
		return answer{}, err
	}
	want := original
	want.Parts = resource.Parts{}
	var onto map[string]any
	if q.Onto != nil {
		if want, onto, err = read(to, *q.Onto); err != nil {
			return answer{}, err
		}
	}
	want.Origin = resource.Origin{UID: original.UID, By: "the-other-side"}
	mirror(resource.Rules{Mode: mode}, to, original, &want)
	if onto == nil {
		created, err := kubestore.Create(to, want, time.Now())
		return answer{Created: json.RawMessage(resource.Canonical(created))}, err
	}
	patch, err := kubestore.Patch(to, onto, want, time.Now())
	if patch == "" {
		patch = "{}"
	}
	return answer{Patch: json.RawMessage(patch)}, err
}

// read reads an object as a client of the API does.
func read(side resource.Side, text []byte) (resource.Object, map[string]any, error) {
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(text); err != nil {
		return resource.Object{}, nil, err
	}
	o, err := kubestore.Read(side, u.Object)
	return o, u.Object, err
}

// mirror makes those parts of a copy equal that the other side owns, and hands a request
// over.
func mirror(rules resource.Rules, to resource.Side, original resource.Object, want *resource.Object) {
	for p := range resource.NumParts {
		if rules.Mirrors(to, original.Key.Kind, p) {
			want.Parts[p] = meta(p, original, *want)
		}
	}
	if to == resource.Agent && original.Parts[resource.Operation] != "" {
		want.Parts[resource.Operation] = original.Parts[resource.Operation]
		want.Parts[resource.OpID] = original.Parts[resource.OpID]
	}
}

// meta returns what part p of a copy becomes: metadata is laid over what is there.
func meta(p resource.Part, original, copied resource.Object) string {
	if p != resource.Meta {
		return original.Parts[p]
	}
	parse := resource.ParseMetadata
	return parse(copied.Parts[p]).Overlay(parse(original.Parts[p]), parse(copied.Ours)).Text()
}
