package redis

import "strings"

// A Key is what Argo CD keeps something of one Application under, in its text:
//
//	app|resources-tree|<instance>|<version>[.gz]
//	app|resources-tree|<instance>|<shard>|<version>[.gz]
//	app|managed-resources|<instance>|<version>[.gz]
//
// The instance is the name of an Application in the namespace of Argo CD itself, and
// <namespace>_<name> of one in any other. The version is that of what is kept, and .gz says
// that it is compressed. The channel on which it is said that something has changed has the
// form of the last, and never .gz.
type Key struct {
	Family    string // ResourcesTree or ManagedResources
	Namespace string // of the Application; "" is that of Argo CD
	Name      string // of the Application
	Rest      string // shard, version and ending, with the line before them
}

// The families of keys.
const (
	ResourcesTree    = "resources-tree"
	ManagedResources = "managed-resources"
)

// maxKey is longer than any key, in bytes: the two names in it have at most 253 each.
const maxKey = 1 << 10

// ParseKey returns the Key of a text; false if it is none.
func ParseKey(text string) (k Key, ok bool) {
	rest, ok := strings.CutPrefix(text, "app|")
	if !ok || len(text) > maxKey {
		return k, false
	}
	if k.Family, rest, ok = strings.Cut(rest, "|"); !ok || k.Family != ResourcesTree && k.Family != ManagedResources {
		return k, false
	}
	instance, rest, ok := strings.Cut(rest, "|")
	if !ok {
		return k, false
	}
	k.Name, k.Rest = instance, "|"+rest
	if namespace, name, elsewhere := strings.Cut(instance, "_"); elsewhere {
		if k.Namespace, k.Name = namespace, name; namespace == "" {
			return k, false
		}
	}
	if k.Name == "" || strings.Contains(k.Name, "_") {
		return k, false // no Application is called so
	}
	if shard, version, sharded := strings.Cut(rest, "|"); sharded {
		if k.Family != ResourcesTree || !digits(shard) {
			return k, false
		}
		rest = version
	}
	return k, rest != "" && !strings.ContainsAny(rest, "|\r\n")
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// String is the inverse of ParseKey.
func (k Key) String() string {
	instance := k.Name
	if k.Namespace != "" {
		instance = k.Namespace + "_" + k.Name
	}
	return "app|" + k.Family + "|" + instance + k.Rest
}

// channel reports whether the key is the name of a channel, too.
func (k Key) channel() bool { return k.Family == ManagedResources && !strings.HasSuffix(k.Rest, ".gz") }

// An Owner says whose an Application of the hub's is, and in which namespace it is there. Both
// namespaces are "" where they are that of Argo CD on their side; false is that of no agent.
type Owner func(namespace, name string) (agent, there string, ok bool)

// route returns the agent in whose Redis a key of the hub's is, and what it is called there.
func (o Owner) route(text string) (agent string, there Key, ok bool) {
	k, ok := ParseKey(text)
	if !ok {
		return "", k, false
	}
	agent, namespace, ok := o(k.Namespace, k.Name)
	k.Namespace = namespace
	return agent, k, ok
}
