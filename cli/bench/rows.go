package bench

import (
	"time"

	"github.com/argocd-fabric/argocd-agent/cli/bench/fleet"
)

// each returns the arguments of one command for each transport, with others.
func each(args []string, transports ...fleet.Carrier) (all [][]string) {
	for _, t := range transports {
		all = append(all, append([]string{"--transport", string(t)}, args...))
	}
	return all
}

// Rows returns all that can be measured.
func Rows() []Row {
	return append(flowRows(), costRows()...)
}

// flowRows are about what travels, and how fast.
func flowRows() []Row {
	return []Row{
		{
			Name: "latency", Numbers: "1", measure: measureLatency,
			Usage: "see how long a change on the hub takes until a spoke writes it",
			Text: "Changes Applications of all agents at random, at a steady rate. What is measured begins when the\n" +
				"principal is shown a change, and ends when the agent begins to write it.",
			Limits: "With nothing to wait for it is the two hops through the sessions and the link; the tail is the garbage collector's and the scheduler's, as both processes and all agents share the processors.",
			Flags: common(3, carried(fleet.Leaf), agents(100), apps(5), rate(50), duration(30*time.Second),
				Flag{"kubeconfig", "", "the `file` of an API server with Argo CD's kinds, which is then hub and spokes; none is in memory"}),
			Page: each([]string{"--duration", "8s"}, fleet.Leaf, fleet.Client, fleet.GRPC),
			Long: each(nil, fleet.Leaf, fleet.Client, fleet.GRPC),
		},
		{
			Name: "slow-backend", Numbers: "2", measure: measureSlow,
			Usage: "offer changes to an agent whose cluster takes its time to write",
			Text: "Changes are offered at the rate, and then ten times as fast for a third of the time. A change is\n" +
				"settled once it, or a later one of its Application, has been written: changes travel as state.",
			Limits: "64 writes at once that take 105 ms each are 609 a second at most.",
			Flags:  common(3, carried(fleet.Leaf), agents(1), apps(1000), rate(200), duration(time.Minute), delay(105*time.Millisecond)),
			Page:   each([]string{"--duration", "15s"}, fleet.Leaf),
			Long:   each(nil, fleet.Leaf, fleet.GRPC),
		},
		{
			Name: "status", Numbers: "3, 13", measure: measureStatus,
			Usage: "see how many statuses a second the principal takes in, and what they cost it",
			Text: "Statuses of 1 KiB of all Applications are changed once, and again once the hub's store has all of\n" +
				"them: none is replaced on its way. All agents share the processors with the principal.",
			Limits: "The processors, which the agents' process takes more of than the principal's: it compresses each status by itself, for which zstd's tables are cold each time. Of the principal's time over gRPC some 15 % are for collecting garbage, 10 % for system calls, 7 % for the stacks of goroutines that grow and shrink, and 7 % for one goroutine to wake the next, of which each status passes eight; the rest is spread over gRPC and TLS, taking the message apart, deciding, and the store. Over NATS more than a third is the server's, which stores each status and hands it from goroutine to goroutine, a quarter the link's, which asks for each anew as they come one by one, and a quarter the session's and the store's. What runs each second for every agent counts too: the slower it goes, the more.",
			Flags:  common(3, carried(fleet.GRPC), agents(1000), apps(5), duration(20*time.Second)),
			Page:   [][]string{{"--transport", "grpc", "--duration", "5s"}, {"--transport", "nats-client", "--duration", "5s"}, {"--transport", "nats", "--agents", "200", "--duration", "5s"}},
			Long:   each(nil, fleet.GRPC, fleet.Client),
		},
		{
			Name: "overload", Numbers: "4", measure: measureOverload,
			Usage: "offer far more changes than agents can take, and see that the latest arrive, once",
			Text: "Changes are offered ten times as fast as at the rate. Of those of one Application an agent that is\n" +
				"behind writes the latest.",
			Limits: "What is written is bounded as with slow-backend; what is received is what is written, as the log holds back what is newer.",
			Flags:  common(1, carried(fleet.Leaf), agents(1), apps(1000), rate(600), duration(5*time.Minute), delay(105*time.Millisecond)),
			Page:   each([]string{"--duration", "20s"}, fleet.Leaf, fleet.GRPC),
			Long:   each(nil, fleet.Leaf, fleet.GRPC),
		},
		{
			Name: "away", Numbers: "9", measure: measureAway,
			Usage: "see what an agent has to catch up with after a day away",
			Text: "The agent's program ends, Applications are changed as often as there are requests, and a tenth of\n" +
				"them deleted; then it starts on what it has kept. It ends when both sides are equal.",
			Limits: "The start of the agent, and its first look at the link: the messages themselves take a part of a second.",
			Flags:  common(3, carried(fleet.Leaf), apps(500), Flag{"requests", 10_000, "how many `changes` there are meanwhile"}),
			Page:   each(nil, fleet.Leaf, fleet.Client, fleet.GRPC),
			Long:   each(nil, fleet.Leaf, fleet.Client, fleet.GRPC),
		},
		{
			Name: "live", Numbers: "16", measure: measureLive,
			Usage: "see what the way through principal and agent adds to requests of an API server",
			Text: "Objects of 2 KiB are read from an API server in the agent's process, directly and by the principal's\n" +
				"resource proxy in turn; a log is followed, as fast as can be and hardly at all; and keys are typed into\n" +
				"what answers as a terminal does. No policy looks at the requests.",
			Limits: "Each byte is in TLS three times: to the proxy, on the link, and to the API server.",
			Flags:  common(3, carried(fleet.Leaf), Flag{"requests", 2000, "how many `requests` are made in a run, each way, and how many keys typed"}, duration(10*time.Second)),
			Page:   each([]string{"--requests", "1000", "--duration", "4s"}, fleet.Leaf, fleet.GRPC),
			Long:   each(nil, fleet.Leaf, fleet.Client, fleet.GRPC),
		},
		{
			Name: "noisy", Numbers: "17", measure: measureNoisy,
			Usage: "see what agents notice of a noisy one among them",
			Text: "Applications of all agents but one are changed at the rate; and then those of that one too, each\n" +
				"second a hundred times as many as those of any other, and their statuses as often on its cluster.",
			Limits: "The processors that all agents share in this measurement.",
			Flags:  common(3, carried(fleet.Leaf), agents(100), apps(5), rate(100), duration(30*time.Second)),
			Page:   each([]string{"--duration", "8s"}, fleet.Leaf, fleet.GRPC),
			Long:   each(nil, fleet.Leaf, fleet.GRPC),
		},
	}
}

// costRows are about what it takes.
func costRows() []Row {
	return []Row{
		{
			Name: "memory", Numbers: "5, 7", measure: measureMemory,
			Usage: "see what memory an idle agent takes of the principal's process, and what an agent's own takes",
			Text: "One agent connects, and then all others, which have nothing to do: by how much the principal's\n" +
				"memory grows that no file backs. Another agent, alone, is then given Applications in a store in memory.",
			Limits: "Over gRPC eleven goroutines for each agent, three of gRPC's and four for its two calls, whose stacks take nearly half of it: most wait 2 to 3 KiB deep, and so keep 8; then the connection's TLS, and the sums of both tables. Over NATS two streams of JetStream, and an account, for each agent. Of an idle agent five parts in six are the program's own code, as far as it is mapped: what it links is what it takes.",
			Flags:  common(3, carried(fleet.Leaf), agents(300), apps(500)),
			Page:   [][]string{{"--transport", "grpc"}, {"--transport", "nats-client", "--agents", "200"}, {"--transport", "nats", "--agents", "100"}},
			Long:   each(nil, fleet.GRPC, fleet.Client, fleet.Leaf),
		},
		{
			Name: "restart", Numbers: "8", measure: measureRestart,
			Usage: "see how soon all agents are back in step after a restart of the principal",
			Text: "The principal ends, and another starts in its place a second later, in the same process. Nothing has\n" +
				"changed meanwhile. It is measured from its start until both sides of every agent know that they are in step.",
			Limits: "The pause of agents before they connect again, and TLS handshakes of both ends on the same processors.",
			Flags:  common(3, carried(fleet.GRPC), agents(1000), apps(5)),
			Page:   [][]string{{"--transport", "grpc"}, {"--transport", "nats-client"}, {"--transport", "nats", "--agents", "100"}},
			Long:   each(nil, fleet.GRPC, fleet.Client, fleet.Leaf),
		},
		{
			Name: "wire", Numbers: "10, 11", measure: measureWire,
			Usage: "count the bytes that an idle agent takes on the wire, and those of a change of health",
			Text: "Counts what crosses a line between agents and principal, TLS and all, both ways: while there is\n" +
				"nothing to say, and while the health of Applications of 20 resources changes, one at a time.",
			Limits: "Over NATS the whole value travels, compressed by itself, and its names and digests do not shrink; idle, the agent asks with each heartbeat, on subjects as long as its name.",
			Flags:  common(3, carried(fleet.GRPC), agents(10), apps(5), rate(20), duration(time.Minute)),
			Page:   each([]string{"--duration", "24s", "--runs", "1"}, fleet.GRPC, fleet.Client, fleet.Leaf),
			Long:   each(nil, fleet.GRPC, fleet.Client, fleet.Leaf),
		},
		{
			Name: "stored", Numbers: "12", measure: measureStored,
			Usage: "see what is kept on disk after many changes, and what becomes of those beyond a quota",
			Text: "Applications are changed again and again. Over NATS one agent is then told of more than its quota\n" +
				"takes, which must be said; and once others are deleted nothing may be missing.",
			Limits: "A block of JetStream's keeps what was replaced until it has 2 MiB, half of which is that; there are two streams for each agent.",
			Flags:  common(1, carried(fleet.Leaf), agents(10), apps(50), rate(500), duration(time.Minute)),
			Page:   each([]string{"--duration", "10s"}, fleet.Leaf, fleet.Client, fleet.GRPC),
			Long:   each(nil, fleet.Leaf, fleet.Client, fleet.GRPC),
		},
		{
			Name: "churn", Numbers: "none", measure: measureChurn, least: 2 * time.Minute,
			Usage: "see whether memory is flat while Applications come and go",
			Text: "One Application in turn is created, changed or deleted, and both processes are looked at after\n" +
				"collecting their garbage. It fails if they take more than 5 % more in the last quarter of the time than\n" +
				"in the second, or if the two sides are not equal in the end.",
			Limits: "Nothing that is known.",
			Flags:  common(1, carried(fleet.Leaf), apps(500), rate(100), duration(10*time.Minute)),
			Long:   each(nil, fleet.Leaf),
		},
	}
}
