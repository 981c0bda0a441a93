package natslink

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// The anchor is a subscription in each account that leaf connections are in. It is older
// than any of them and stays for as long as the account. Nobody says anything on its
// subject, and if a hostile agent does, it goes to an account that nobody is in.
//
// Without it a server ends its process, and so ours, now and then (nats-server 2.15.2,
// server/leafnode.go). A new leaf connection notes which subscriptions it finds that it
// passes on (tsub), since some may be half made: each is struck off when it is completed,
// and the rest after 5 seconds by a timer (tsubt), which goes with the last. Closing the
// connection drops the timer and leaves the notes. So if all that a leaf connection has
// found is half made, as when this process comes back to an account while the agent does,
// and the connection is closed before it is completed, then whoever completes the last of
// it stops a timer that is not there (updateSmap). The anchor was completed before, and is
// never struck off.
//
// It is passed on only if the agent may use it in both directions: what an agent may not
// is not noted.
const anchor = "fabric.anchor"

// nowhere is the account that nobody is in.
const nowhere = "NOWHERE"

// accountOf returns an account of a server, which is made with its anchor if it is not there.
// All accounts that are made while a server runs are made by it, one at a time, so that
// nobody is in one before its anchor.
func (n *node) accountOf(s *server.Server, name string) (*server.Account, error) {
	n.making.Lock()
	defer n.making.Unlock()
	a, isNew := s.LookupOrRegisterAccount(name)
	if !isNew || name == n.account {
		return a, nil
	}
	end, isNew := s.LookupOrRegisterAccount(nowhere)
	if isNew {
		if err := end.AddServiceExport(anchor, nil); err != nil {
			return nil, anchorError(name, err)
		}
	}
	if err := a.AddServiceImport(end, anchor, anchor); err != nil {
		return nil, anchorError(name, err)
	}
	return a, nil
}

func anchorError(account string, err error) error {
	return fmt.Errorf("natslink: anchor of account %s: %w", account, err)
}

// anchored returns the accounts of a server that is to be started: one with an anchor, and
// the one that nobody is in.
func anchored(name string) ([]*server.Account, error) {
	a, end := server.NewAccount(name), server.NewAccount(nowhere)
	err := end.AddServiceExport(anchor, nil)
	if err == nil {
		err = a.AddServiceImport(end, anchor, anchor)
	}
	if err != nil {
		return nil, anchorError(name, err)
	}
	return []*server.Account{a, end}, nil
}
