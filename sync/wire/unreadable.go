package wire

import (
	"errors"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Unreadable returns what an engine is to know of a message that Decode has not read, and
// why is Decode's error. It reports false if there is nothing that an engine could know:
// the key is none of an object's.
//
// A tombstone that cannot be read still says that there is no row.
func Unreadable(t transport.Message, why error) (engine.Message, bool) {
	k, err := Key(t.Key)
	if err != nil || engine.Reserved(k) {
		return engine.Message{}, false
	}
	if t.Tombstone() {
		return engine.Message{Key: k, Body: engine.Tombstone{}}, true
	}
	u := engine.Unreadable{Row: resource.Digest(t.Digest), Text: reason(why)}
	if t.Event.Context != nil {
		if uid := extensions(t.Event)["uid"]; plain(uid) == nil {
			u.UID = uid
		}
	}
	return engine.Message{Key: k, Body: u}, true
}

// reason returns why an event cannot be read, without its name.
func reason(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	return strings.ToValidUTF8(err.Error(), "\uFFFD")
}
