package observe

import (
	"encoding/json"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// A note is what an object was like when it was adopted.
type note struct {
	UID  string `json:"uid"`
	Spec string `json:"spec"`
	Meta string `json:"meta"`
}

// noted returns what is to be noted of an object: nothing of one that is not there, or of one
// that is secret, because the note is kept in clear.
func noted(o *resource.Object) string {
	if o == nil || o.Key.Kind.Sealed() {
		return ""
	}
	text, err := json.Marshal(note{o.UID, o.Parts[resource.Spec], o.Parts[resource.Meta]})
	if err != nil { // it is made of strings
		panic("observe: note: " + err.Error())
	}
	return string(text)
}

// former returns o with what is noted of it: its spec, its finalizers of Argo CD's, and those of
// its labels and annotations that we have written since. Of another object, or of none, nothing
// is taken.
func former(o resource.Object, text string) resource.Object {
	var n note
	if text == "" || json.Unmarshal([]byte(text), &n) != nil || n.UID != o.UID {
		return o
	}
	was, ours := resource.ParseMetadata(n.Meta), resource.ParseMetadata(o.Ours)
	o.Parts[resource.Spec] = n.Spec
	o.Parts[resource.Meta] = resource.ParseMetadata(o.Parts[resource.Meta]).Overlay(was.Only(ours), ours).Text()
	return o
}
