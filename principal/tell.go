package principal

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// saying returns what an Application is to say that it waits for, and whether that is not
// for a session to see to.
func (a *allotment) saying(o resource.Object) (text string, ours bool) {
	if o.Excluded || backend.Exclude(o).Excluded || o.Origin.UID != "" {
		return "", false
	}
	for _, v := range a.shown[o.Key] {
		if v == there || v == dying {
			return "", false
		}
	}
	text = a.waits[o.Key]
	if why := a.forbids(o.Key.Namespace); why != "" && a.custody.keepers[aim(o.Parts[resource.Spec])] != nil {
		text = why
	}
	return text, true
}

// While not all is known that is soon to be known, what Applications wait for is not written:
// no longer than settling after the start, and as to each of them no sooner than at the second
// look.
const (
	settling = time.Minute
	looking  = 3 * time.Second
)

// tell writes what Applications wait for, until ctx is done.
func (a *allotment) tell(ctx context.Context) {
	again := time.NewTicker(looking)
	defer again.Stop()
	for {
		for _, o := range a.unsaid() {
			if _, err := a.store.Write(ctx, o); err != nil && !errors.Is(err, backend.ErrConflict) && ctx.Err() == nil {
				a.log.Debug("an application does not say what it waits for", zap.Stringer("key", o.Key), zap.Error(err))
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// unsaid returns the Applications that do not say yet what they wait for, as they are to be.
// One that cannot be written is due again at every look.
func (a *allotment) unsaid() (out []resource.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.enrolled || !a.custody.complete() && time.Since(a.began) < settling {
		return nil
	}
	for k, before := range a.due {
		o, ok := a.objects[k]
		text, ours := a.saying(o)
		if !ok || !ours || o.Parts[resource.Pending] == text {
			delete(a.due, k)
			continue
		}
		if a.due[k] = true; before {
			o.Parts[resource.Pending] = text
			out = append(out, o)
		}
	}
	return out
}
