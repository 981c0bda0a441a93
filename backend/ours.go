package backend

import "github.com/argocd-fabric/argocd-agent/sync/resource"

// Ours returns what Object.Ours becomes when an object was before, or was not there, and is
// now: keys that are there no more are forgotten, and those that were set are added if the
// writer was us, that is, a Write. Only copies have keys of ours. It is for stores that have
// nobody else to remember it.
func Ours(before, now resource.Object, us bool) string {
	if now.Origin == (resource.Origin{}) {
		return ""
	}
	was, is := resource.ParseMetadata(before.Parts[resource.Meta]), resource.ParseMetadata(now.Parts[resource.Meta])
	had := resource.ParseMetadata(before.Ours)
	pick := func(was, is, had map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range is {
			old, there := was[k]
			_, ours := had[k]
			if ours || us && (!there || old != v) {
				out[k] = ""
			}
		}
		return out
	}
	return resource.Metadata{
		Labels:      pick(was.Labels, is.Labels, had.Labels),
		Annotations: pick(was.Annotations, is.Annotations, had.Annotations),
	}.Text()
}
