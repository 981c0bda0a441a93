package identity

import (
	"errors"
	"fmt"
	"strings"
)

// A Login is a user, which is an agent's name, and a password: what an agent says that has no
// certificate. Printed, it does not tell the password.
type Login struct{ User, Password string }

// maxPassword is how many bytes of a password bcrypt takes.
const maxPassword = 72

// String implements fmt.Stringer.
func (l Login) String() string { return fmt.Sprintf("login of %.80q", l.User) }

// GoString implements fmt.GoStringer.
func (l Login) GoString() string { return l.String() }

// ParseLogin reads a Login: the first line of text, as name:password. where is the text's, for
// errors, which do not tell what is in it.
func ParseLogin(where string, text []byte) (Login, error) {
	line, _, _ := strings.Cut(string(text), "\n")
	user, password, _ := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
	err := checkPassword(password)
	if CheckName(user) != nil {
		err = errors.New("its first line does not begin with an agent's name and a colon")
	}
	if err != nil {
		return Login{}, fmt.Errorf("identity: read login in %s: %w", where, err)
	}
	return Login{User: user, Password: password}, nil
}

// checkPassword returns why a password can be none. It does not tell it.
func checkPassword(password string) error {
	switch {
	case password == "":
		return errors.New("there is no password")
	case len(password) > maxPassword:
		return fmt.Errorf("the password has more than %d bytes", maxPassword)
	case strings.ContainsAny(password, "\r\n\x00"):
		return errors.New("the password is more than a line")
	}
	return nil
}
