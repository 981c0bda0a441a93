package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// ErrBusy is in the error of a Prover that has too much to do: who is refused for it may come
// again.
var ErrBusy = errors.New("too many passwords are being checked")

// The same is said of who is no user, and of who says another password.
var errLogin = errors.New("identity: no such user and password")

// userpass is the Method of agents without certificates, whose passwords are in a file, as
// ParseUsers reads it.
func userpass(file string, _ Terms) (Method, error) {
	if file == "" {
		return Method{}, errors.New("identity: userpass: no file is named")
	}
	return Method{Prove: newPorter().prove, Source: func(k Kept) Source {
		return func(ctx context.Context) (Bundle, error) {
			b, err := k.Read(ctx)
			if err != nil {
				return Bundle{}, err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return Bundle{}, fmt.Errorf("identity: read users: %w", err)
			}
			b.Users, err = ParseUsers(file, text)
			return b, err
		}
	}}, nil
}

// ownLogin is the Source of an agent that says what is in a file, as ParseLogin reads it.
func ownLogin(file string, _ Terms) (func(Kept) Source, error) {
	if file == "" {
		return nil, errors.New("identity: userpass: no file is named")
	}
	return func(k Kept) Source {
		return func(ctx context.Context) (Bundle, error) {
			text, err := os.ReadFile(file)
			if err != nil {
				return Bundle{}, fmt.Errorf("identity: read login: %w", err)
			}
			login, err := ParseLogin(file, text)
			if err != nil {
				return Bundle{}, err
			}
			ca, err := k.CA(ctx)
			return Bundle{CA: ca, Login: login}, err
		}
	}, nil
}

// maxQueue is how many passwords may wait to be checked. It takes seconds to check so many.
const maxQueue = 64

// A porter checks passwords: few at a time, since each costs as much as its hash does, and none
// of them twice. So a herd of agents that come back passes it at once, in whatever flood of others.
type porter struct {
	key   []byte
	queue chan struct{} // holds an element for each password that waits or is checked
	slots chan struct{} // for each that is checked

	mu    sync.Mutex
	known map[string][sha256.Size]byte // by user: what was proved last
}

func newPorter() *porter {
	slots := max(1, runtime.GOMAXPROCS(0)/2)
	p := &porter{
		key: []byte(rand.Text()), queue: make(chan struct{}, maxQueue), slots: make(chan struct{}, slots),
		known: map[string][sha256.Size]byte{},
	}
	return p
}

// prove is a Prover.
func (p *porter) prove(c *Credentials, s Shown) (Proof, error) {
	user := s.Login.User
	switch {
	case s.Login == Login{}:
		return Proof{}, errors.New("identity: the peer has said no user and password")
	case CheckName(user) != nil || checkPassword(s.Login.Password) != nil:
		return Proof{}, errLogin // nobody is called so
	}
	hash, known := c.get().bundle.Users.hash(user)
	if err := p.check(hash, s.Login); err != nil {
		return Proof{Agent: user}, err
	}
	if !known {
		return Proof{Agent: user}, errLogin
	}
	return Proof{Agent: user, stands: func(now *credential, _ time.Time) error {
		switch is, there := now.bundle.Users[user]; {
		case !there:
			return fmt.Errorf("identity: %s is no user any more", user)
		case is != hash:
			return fmt.Errorf("identity: %s has another password", user)
		}
		return nil
	}}, nil
}

// check returns an error unless the hash is that of the Login's password.
func (p *porter) check(hash string, l Login) error {
	tag := p.tag(hash, l)
	if p.proved(l.User, tag) {
		return nil
	}
	select {
	case p.queue <- struct{}{}:
		defer func() { <-p.queue }()
	default:
		return fmt.Errorf("identity: %w", ErrBusy)
	}
	p.slots <- struct{}{}
	err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(l.Password))
	<-p.slots
	if err != nil {
		return errLogin
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[l.User] = tag
	return nil
}

// tag is what is remembered of a password that has a hash. Nobody can make it who does not know
// this process's key.
func (p *porter) tag(hash string, l Login) (tag [sha256.Size]byte) {
	m := hmac.New(sha256.New, p.key)
	fmt.Fprintf(m, "%s\n%s\n%s", l.User, hash, l.Password)
	return [sha256.Size]byte(m.Sum(nil))
}

func (p *porter) proved(user string, tag [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.known[user]
	return ok && hmac.Equal(last[:], tag[:])
}
