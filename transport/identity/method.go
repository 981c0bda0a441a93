package identity

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// A Method is a way in which agents prove their names to a principal.
type Method struct {
	// Prove finds out who they are.
	Prove Prover
	// Source returns what reads all that the principal's Credentials need for it.
	Source func(Kept) Source
}

// Terms are what Methods need to be told beside what they are called with.
type Terms struct {
	// Proxies are where proxies may be that are believed whom they have met, beside this machine.
	Proxies []netip.Prefix
	// Workload reads a Bundle from the SPIFFE Workload API; nil where there is none.
	Workload Source
}

// methods are all Methods, by what they are called. Each is made of what stands behind that.
var methods = map[string]func(rest string, t Terms) (Method, error){
	"header":       header,
	"mtls:subject": bySubject,
	"mtls:uri":     byURI,
	"spiffe":       spiffe,
	"userpass":     userpass,
}

// own are the ways in which an agent proves its name other than by a certificate of its own, by
// what they are called. Each says what reads all that its Credentials need.
var own = map[string]func(rest string, t Terms) (func(Kept) Source, error){
	"header":   behindProxy,
	"spiffe":   ownSPIFFE,
	"userpass": ownLogin,
}

// ParseMethod reads a Method as --auth has it, such as "mtls:uri:spiffe://example[.]com/agent/(.*)":
// its name, a colon, and what it needs. "" is that of SubjectName.
func ParseMethod(text string, t Terms) (Method, error) {
	if text == "" {
		return Method{Prove: SubjectName, Source: asKept}, nil
	}
	parse, rest, err := chosen(methods, text)
	if err != nil {
		return Method{}, err
	}
	return parse(rest, t)
}

// ParseOwn reads how an agent proves its name, as --creds has it, such as "userpass:edge-1.creds",
// and returns what makes the Source of its Credentials. "" is by a certificate.
func ParseOwn(text string, t Terms) (func(Kept) Source, error) {
	if text == "" {
		return asKept, nil
	}
	parse, rest, err := chosen(own, text)
	if err != nil {
		return nil, err
	}
	return parse(rest, t)
}

// asKept is for who needs what is kept, and nothing else.
func asKept(k Kept) Source { return k.Read }

// chosen returns the row of a table that a text begins with, and what follows its name.
func chosen[T any](table map[string]T, text string) (row T, rest string, err error) {
	for name, row := range table {
		if rest, ok := strings.CutPrefix(text, name+":"); ok {
			return row, rest, nil
		}
	}
	known := strings.Join(slices.Sorted(maps.Keys(table)), ", ")
	return row, "", fmt.Errorf("identity: %q begins with no method that is known: %s", text, known)
}
