package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Allow is what is allowed beyond the default: words, each of which opens a way into managed
// pods, and kinds, of which all objects may be touched in every way.
type Allow struct {
	words []string
	kinds []string // group/Kind, where the group of the core is empty, and * stands for all
}

// The words of Allow.
const (
	execWord    = "exec"
	attachWord  = "attach"
	forwardWord = "port-forward"
)

var (
	kindPattern  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	groupPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

// core is how the group of the core is written.
const core = "core"

// ParseAllow reads a list with commas: exec, attach, port-forward, a kind as group/Kind
// (Kind or core/Kind in the core), all of a group as group/*, or * for all kinds. Empty is
// nothing. Errors name the entry and what there is.
func ParseAllow(text string) (a Allow, err error) {
	if strings.TrimSpace(text) == "" {
		return a, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		switch entry {
		case execWord, attachWord, forwardWord:
			a.words = append(a.words, entry)
			continue
		case "*":
			a.kinds = append(a.kinds, "*/*")
			continue
		}
		kind, err := parseKind(entry)
		if err != nil {
			return Allow{}, err
		}
		a.kinds = append(a.kinds, kind)
	}
	return a, nil
}

func parseKind(entry string) (string, error) {
	group, kind, found := strings.Cut(entry, "/")
	if !found {
		group, kind = core, entry
	}
	if kind != "*" && !kindPattern.MatchString(kind) || !groupPattern.MatchString(group) {
		return "", fmt.Errorf("policy: %q is none of exec, attach, port-forward, a kind such as Pod or apps/Deployment, a group such as apps/*, or *", entry)
	}
	if group == core {
		group = ""
	}
	return group + "/" + kind, nil
}

// word reports whether a word is there.
func (a Allow) word(w string) bool { return slices.Contains(a.words, w) }

// kind reports whether all objects of a kind may be touched.
func (a Allow) kind(group, kind string) bool {
	return kind != "" && slices.ContainsFunc(a.kinds, func(k string) bool {
		return k == "*/*" || k == group+"/*" || k == group+"/"+kind
	})
}

// named returns a kind as it is written in a list.
func named(group, kind string) string {
	if group == "" {
		return kind
	}
	return group + "/" + kind
}

// String returns the list.
func (a Allow) String() string {
	list := slices.Clone(a.words)
	for _, k := range a.kinds {
		group, kind, _ := strings.Cut(k, "/")
		switch {
		case k == "*/*":
			list = append(list, "*")
		case group == "":
			list = append(list, core+"/"+kind)
		default:
			list = append(list, k)
		}
	}
	return strings.Join(list, ",")
}
