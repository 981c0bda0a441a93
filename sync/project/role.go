package project

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A claimant makes the roles of a project its own. Argo CD joins the roles of a project to
// one text of policies, line by line, so that whatever is in a role can say anything of
// anybody: what is not understood to the last character is dropped, and the role with it, as
// a role without one of its denials would be another.
type claimant struct {
	own       []string // the names under which the project may speak of itself
	project   string   // the one that it is to have
	namespace string   // of its Applications
	members   bool     // whether the roles keep their members
}

// roles returns those of a project's roles that it may have.
func (c claimant) roles(list any) []any {
	items, _ := list.([]any)
	var out []any
	for _, item := range items {
		if r, ok := item.(map[string]any); ok {
			if r, ok := c.role(r); ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// role returns a role with its policies about the claimed project, false if any of them is
// about something else.
func (c claimant) role(r map[string]any) (map[string]any, bool) {
	name, _ := r["name"].(string)
	if !roleName.MatchString(name) {
		return nil, false
	}
	out := cloned(r)
	if r["policies"] != nil {
		list, ok := r["policies"].([]any)
		if !ok {
			return nil, false
		}
		policies := []any{}
		for _, item := range list {
			line, _ := item.(string)
			policy, ok := c.policy(name, line)
			if !ok {
				return nil, false
			}
			policies = append(policies, policy)
		}
		out["policies"] = policies
	}
	c.admit(out)
	return out, true
}

// admit takes away from a role those members that it must not have.
func (c claimant) admit(role map[string]any) {
	groups := []any{}
	for _, g := range texts(role["groups"]) {
		if plainGroup(g) {
			groups = append(groups, g)
		}
	}
	delete(role, "groups")
	if !c.members {
		delete(role, "jwtTokens")
		return
	}
	if len(groups) > 0 {
		role["groups"] = groups
	}
}

// policy returns one policy of a role, rewritten to the claimed project: its subject, and its
// object as <project>/<namespace>/<application>. A policy is
//
//	p, proj:<project>:<role>, <resource>, <action>, <project>/[<namespace>/]<application>, allow|deny
func (c claimant) policy(role, line string) (string, bool) {
	fields := strings.Split(line, ",")
	for i := range fields {
		fields[i] = strings.Trim(fields[i], " \t")
	}
	if strings.ContainsAny(line, "\"\n\r") || len(fields) != 6 || fields[0] != "p" || !c.subject(role, fields[1]) || !slices.Contains(scoped, fields[2]) ||
		!action.MatchString(fields[3]) || !slices.Contains(effects, fields[5]) {
		return "", false
	}
	object, ok := c.object(fields[4])
	if !ok {
		return "", false
	}
	fields[1], fields[4] = "proj:"+c.project+":"+role, object
	return strings.Join(fields, ", "), true
}

func (c claimant) subject(role, subject string) bool {
	return slices.ContainsFunc(c.own, func(p string) bool { return subject == "proj:"+p+":"+role })
}

func (c claimant) object(object string) (string, bool) {
	for _, p := range c.own {
		application, within := strings.CutPrefix(object, p+"/")
		if within && objectPath.MatchString(application) {
			return c.project + "/" + c.namespace + "/" + path.Base(application), true
		}
	}
	return "", false
}

// The parts of a policy that a claimed project may have. Repositories and clusters of a
// project are not among its resources: those of the hub are none of an agent's.
var (
	scoped     = []string{"applications", "applicationsets", "logs", "exec"}
	effects    = []string{"allow", "deny"}
	action     = regexp.MustCompile(`^[\w*./-]+$`)
	objectPath = regexp.MustCompile(`^([\w*.-]+/)?[\w*.-]+$`)
	roleName   = regexp.MustCompile(`^[a-zA-Z0-9]([-_a-zA-Z0-9]*[a-zA-Z0-9])?$`)
)

// plainGroup reports whether a group's name is one field of a line, as Argo CD demands it.
func plainGroup(name string) bool {
	bare := strings.TrimSpace(name)
	if bare != name {
		return false
	}
	if quoted := len(bare) > 1 && bare[0] == '"' && bare[len(bare)-1] == '"'; quoted {
		bare = bare[1 : len(bare)-1]
	} else if strings.Contains(bare, ",") {
		return false
	}
	return bare != "" && !strings.ContainsAny(bare, "\"\n\r\t")
}
