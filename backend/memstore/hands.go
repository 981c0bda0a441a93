package memstore

import (
	"fmt"
	"maps"

	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Edit is what a user or a controller does: whatever the version, it lets f change the
// Parts and the Origin of the object k, or make one where there is none (f is then given
// an Object that has only a Key). An edit that changes nothing does nothing.
func (s *Store) Edit(k resource.Key, f func(*resource.Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.objects[k]
	edited := cur.Object
	edited.Key = k
	f(&edited)
	next := cur
	next.Key, next.Parts, next.Origin = k, edited.Parts, edited.Origin
	if edited.Parts[resource.Meta] != cur.Parts[resource.Meta] { // else it is canonical
		next.Parts = canonical(edited.Parts)
	}
	if cur.Parts == next.Parts && cur.Origin == next.Origin {
		return
	}
	next.Ours = ours(cur, next, false)
	s.put(next)
}

// Delete is what a user does. The object stays, Deleting, while a finalizer is on it.
func (s *Store) Delete(k resource.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[k]; ok {
		s.mark(o)
	}
}

// Hold puts somebody else's finalizer on the object k: one that no Write takes off.
func (s *Store) Hold(k resource.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[k]; ok && !o.held && !o.Deleting {
		o.held = true
		s.put(o)
	}
}

// Finish takes all finalizers off the object k, as their controllers do once their work
// is done: Argo CD's, once what an Application has deployed is deleted. An object that
// is being deleted vanishes; another is left alone.
func (s *Store) Finish(k resource.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[k]
	if !ok || !o.Deleting {
		return
	}
	m := resource.ParseMetadata(o.Parts[resource.Meta])
	m.Finalizers = nil
	o.held, o.Parts[resource.Meta] = false, m.Text()
	s.put(o)
}

// Load puts objects into the store as they are, whatever was there: a restore by
// manifests, if they have no UID. Only their Versions, and UIDs that are missing, are
// given by the store.
func (s *Store) Load(objects ...resource.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		o.Parts = canonical(o.Parts)
		cur := s.objects[o.Key]
		if cur.UID != "" && cur.UID != o.UID {
			s.feed.Gone(backend.Gone{Key: o.Key, UID: cur.UID})
		}
		s.put(object{Object: o, held: cur.held && cur.UID == o.UID})
	}
}

// Lose makes the object k vanish without anybody having seen its deletion.
func (s *Store) Lose(k resource.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.objects[k]; ok {
		s.revision++
		s.lose(o)
	}
}

func (s *Store) lose(o object) {
	delete(s.objects, o.Key)
	s.feed.Gone(backend.Gone{Key: o.Key, UID: o.UID})
}

// Restore makes the store what it was: it goes back in time, its revision included, and
// gives versions again that it has given before. Running watches end.
func (s *Store) Restore(to Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.revision = maps.Clone(to.objects), to.revision
	s.feed.End(fmt.Errorf("memstore: restored to revision %d: %w", to.revision, backend.ErrRewound))
}
