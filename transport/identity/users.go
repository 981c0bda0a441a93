package identity

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// Users are the bcrypt hashes of agents' passwords, by the agents' names.
type Users map[string]string

// What a hash may cost to check: a second of a processor at most, and in Hash what is usual.
const (
	hashCost    = 10
	maxHashCost = 14
)

// ParseUsers reads Users, of which a line is name:hash; empty ones, and those that begin with #,
// say nothing. where is the text's, for errors, which do not tell a hash. A text that is empty,
// as while it is being written, is an error.
func ParseUsers(where string, text []byte) (Users, error) {
	fail := func(err error) (Users, error) { return nil, fmt.Errorf("identity: read users in %s: %w", where, err) }
	if len(bytes.TrimSpace(text)) == 0 {
		return fail(errors.New("there is nothing in it; write a # if nobody is to be let in"))
	}
	u, n := Users{}, 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		if err := checkUser(name, hash); err != nil {
			return fail(fmt.Errorf("line %d: %w", n, err))
		}
		if _, again := u[name]; again {
			return fail(fmt.Errorf("line %d: %s has a line already", n, name))
		}
		u[name] = hash
	}
	return u, nil
}

func checkUser(name, hash string) error {
	if CheckName(name) != nil {
		return errors.New("it does not begin with an agent's name and a colon")
	}
	switch cost, err := bcrypt.Cost([]byte(hash)); {
	case err != nil:
		return fmt.Errorf("what %s has is no bcrypt hash", name)
	case cost > maxHashCost:
		return fmt.Errorf("the hash of %s has cost %d, above %d", name, cost, maxHashCost)
	}
	return nil
}

// Hash returns the hash of a password.
func Hash(password string) (string, error) {
	err := checkPassword(password)
	if err == nil {
		var hash []byte
		if hash, err = bcrypt.GenerateFromPassword([]byte(password), hashCost); err == nil {
			return string(hash), nil
		}
	}
	return "", fmt.Errorf("identity: %w", err)
}

// Text returns what ParseUsers reads.
func (u Users) Text() []byte {
	var b bytes.Buffer
	b.WriteString("# Agents' names, and the bcrypt hashes of their passwords.\n")
	for _, name := range slices.Sorted(maps.Keys(u)) {
		fmt.Fprintf(&b, "%s:%s\n", name, u[name])
	}
	return b.Bytes()
}

// hash returns the hash of a user and whether there is one. Who is none has a hash that costs
// as much as any here, and that nothing has.
func (u Users) hash(user string) (hash string, known bool) {
	if hash, known = u[user]; known {
		return hash, true
	}
	cost := hashCost
	for i, h := range slices.Sorted(maps.Values(u)) {
		c, _ := bcrypt.Cost([]byte(h)) // it was checked
		if cost = max(cost, c); i == 0 {
			cost = c
		}
	}
	return fmt.Sprintf("$2a$%02d$%s", cost, strings.Repeat(".", 53)), false
}
