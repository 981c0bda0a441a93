package bench

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// Settings say how a Row is measured. A Row uses those that are among its Flags.
type Settings struct {
	Transport  Carrier
	Agents     int
	Apps       int           // Applications of each agent
	Rate       int           // changes a second
	Duration   time.Duration // for how long there are changes
	Delay      time.Duration // that each write takes on an agent's cluster
	Requests   int
	Seed       int // of what is changed when
	Runs       int // how often it is measured
	Kubeconfig string
	Profile    string // a folder for profiles of the last run; "" is none

	Command []string    // that calls RunAgents
	Log     *zap.Logger // of the principal
}

// A Flag is a setting that a Row uses.
type Flag struct {
	Name  string
	Value any // that it has unless another one is given: text, a number or a duration
	Usage string
}

// common returns flags, and those that every Row has.
func common(runs int, flags ...Flag) []Flag {
	return append(flags,
		Flag{"seed", 1, "the `number` that decides what is changed when"},
		Flag{"runs", runs, "how many `times` it is measured"},
	)
}

func carried(default_ fleet.Carrier) Flag {
	return Flag{"transport", string(default_), "the `way` of messages: nats (a server in each program), nats-client (one in the principal's only) or grpc"}
}

func agents(n int) Flag { return Flag{"agents", n, "how many `agents` there are"} }

func apps(n int) Flag { return Flag{"apps", n, "how many `Applications` each agent has"} }

func rate(n int) Flag { return Flag{"rate", n, "how many `changes` a second are made"} }

func duration(d time.Duration) Flag { return Flag{"duration", d, "for which `duration`"} }

func delay(d time.Duration) Flag {
	return Flag{"delay", d, "which `duration` each write takes on an agent's cluster"}
}

// A Misfit is a setting of which nothing can be measured.
type Misfit struct{ Flag, What, Advice string }

// Error implements error.
func (m *Misfit) Error() string { return fmt.Sprintf("bench: %s %s; %s", m.Flag, m.What, m.Advice) }

// check returns an error if a setting that a Row uses is none.
func (r Row) check(s Settings) error {
	numbers := map[string]int{"agents": s.Agents, "apps": s.Apps, "rate": s.Rate, "requests": s.Requests, "runs": s.Runs}
	for _, f := range r.Flags {
		n, counted := numbers[f.Name]
		switch {
		case counted && n < 1:
			return &Misfit{f.Name, fmt.Sprintf("%d is not above zero", n), "write a number such as " + fmt.Sprint(f.Value)}
		case f.Name == "duration" && s.Duration <= 0:
			return &Misfit{f.Name, fmt.Sprintf("%v is not above zero", s.Duration), "write a duration such as " + fmt.Sprint(f.Value)}
		case f.Name == "duration" && s.Duration < r.least:
			return &Misfit{f.Name, fmt.Sprintf("%v is too short to tell", s.Duration), fmt.Sprintf("write at least %v", r.least)}
		case f.Name == "delay" && s.Delay < 0:
			return &Misfit{f.Name, fmt.Sprintf("%v is below zero", s.Delay), "write a duration such as " + fmt.Sprint(f.Value)}
		case f.Name == "transport" && s.Transport.Check() != nil:
			return &Misfit{f.Name, fmt.Sprintf("%q is no transport", s.Transport), "write nats, nats-client or grpc"}
		}
	}
	return nil
}
