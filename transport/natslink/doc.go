// Package natslink carries a Link over NATS JetStream. The principal and every agent run
// a NATS server in their own process; the agent's joins the principal's as a leaf node,
// by a connection that the agent opens. An agent may do without: see Agents without a server.
//
// # Streams
//
// Each direction is a log on the writer's server and a copy of it on the reader's:
//
//	principal                         agent a
//	DOWN_a   fabric.a.down.>   --->   IN_a
//	UP_a                       <---   OUT_a   fabric.a.up.>
//
// All four keep the last message of each subject and nothing else; a subject is a key,
// encoded. A message is a CloudEvent in binary mode. A stream's metadata name its epoch,
// so that one that was made anew is known from the one before. In a copy each message
// says its place in the log.
//
// # Following a log
//
// The reader of a copy asks the writer of the log: I have this much of that epoch, what
// follows? The writer answers at once if there is something, and otherwise when there is,
// or after a heartbeat. The reader stores what it gets in the order of the log, each
// message on the condition that the one before is the last in the copy, and asks again. So
// a copy is a prefix of its log but for what has been replaced since, however often
// anything is cut, restarted or lost, and says itself how long a prefix. An ask is also
// the sign of life, and the whole protocol between the two processes: no part of the
// JetStream API crosses the link.
//
// What was put into the log a moment ago is said from memory (see tail): to have the server give it back
// took as long as to store it. A process that has not put it there reads it.
//
// The agent asks with each heartbeat, and is answered: so either hears the other. With its ask it says
// that it has the principal's, which may wait for several heartbeats then (see voucher). An agent that
// does not ask, since its disk is slow, is asked with each.
//
// It is not done by JetStream's own durable sources, which lose messages. The response to
// the consumer reset with which a source begins says what the consumer has delivered, and
// the source takes that for received (nats-server 2.15.2, server/stream.go,
// trySetupSourceConsumer: si.sseq = Delivered.Stream). If there is interest in the delivery
// subject while the reset is handled, as there is when a source that was set up before its
// leaf node connected probes for it, then the consumer delivers between the reset and the
// response, to nobody; the source skips these when they come again, and acks them. They are
// gone while it shows no lag and no error: for 4 of 30 leaf nodes that connected with 2,000
// messages waiting, and now and then for the first messages of one among hundreds. No
// setting closes it, and a repair would have to compare all rows.
//
// # Reading
//
// A process reads its whole copy at start, by batches of direct gets, and then what it
// stores itself. Nothing is remembered of what the process before has read: the copy is
// compacted, so reading it costs what its objects cost, and a reader whose knowledge
// begins empty needs all of it. So Ack does nothing, and what is not acked comes again to
// the next process, as does what is. No stream has a consumer, which would have to be
// watched, and would each take 10 ms to stop.
//
// # Live streams
//
// Byte streams (package mux) are packets on two more subjects, which core NATS carries and
// nothing stores. It keeps their order and loses some with a connection, so they are
// numbered; one that is missing, another process of the peer, or another connection to it
// ends all streams, and both sides begin anew (see pipe). What is under way is bounded by the
// receiver, well below what servers and clients keep for one who is slow, so that nothing
// of it is dropped, and a message of the tables waits behind a few packets at most. While there are
// streams each side says with each heartbeat that it is there, else with every seventh.
//
// # Agents without a server
//
// What crosses the link is asks, answers and packets, so an agent needs no server to speak it: a
// Client is one client of the principal's server, at a port of its own (HubConfig.ClientListen).
// The hub is the same for either: its end of a Link asks who listens to a subject, and not what
// is behind it. To a Link a log or a copy is a shelf, and what is on it differs:
//
//	            Leaf              Client
//	OUT_a       JetStream, kept   in memory, gone with the process
//	IN_a        JetStream, kept   a file of bbolt, written before it is handed on
//	connection  the server's      a trunk: of a client of NATS, opened again after a random time
//
// So a Client that starts while the principal is away knows what it has heard. What it has said it
// says again: its log has another epoch with each process, of which the hub takes in all rows, as
// of a log that was lost. Of two connections of one agent the newer stays, as with leaf nodes.
//
// With a hundred objects of 2 KiB each way an agent took 2,255 KiB of its process with a server
// and 1,413 KiB without (BenchmarkAgentMemory); the programs, with nothing to do, took 9.1 and 7.3
// MiB beside their code.
//
// TLS begins with the first byte, as on the connection of a leaf node, so that it can be passed on
// by the name in it. The price is that each connection of the principal's own process to its
// server takes 50 ms to open while clients are listened for: so long the server waits for TLS.
//
// # What crosses
//
// Asks and answers are JSON between ends that do not know each other, and whatever version they are of;
// then they are brief (see readsBrief), and rows are compressed against a vocabulary. In the streams a
// message is the event as it is, for whoever reads them beside us: only the link compresses.
//
// The health of an Application of 20 resources, 3.5 KB with its headers, took 4.5 KB on the wire and takes
// 0.74 (argocd-agentctl bench wire): 0.42 the answer with the whole value, in which digests, identities and
// the names of resources are new to whoever inflates it; 0.11 the next ask; the rest is manifests, which
// follow. Less would be what differs from the value before, which the log does not hold.
//
// An idle agent took 10.2 KB a minute and takes 1.7 as a client, 1.9 as a leaf node. That is, with each
// heartbeat of 8 seconds, an ask of 109 bytes and an answer of 58, of which 66 are subjects and 44 TLS; and
// a PING and its PONG of 28 each. The rest is live streams that nobody uses (see calmAfter), and the
// principal's own asks.
//
// # What it costs
//
// Of a message from an agent with a server about half is the servers': they store it, twice, hand it from
// goroutine to goroutine, and write to the file each time. The rest is to compress it and take it apart, and
// system calls of TLS: an ask and an answer for each, as messages come one by one. What an agent without a
// server hears waits for its disk, which is made sure of each time.
//
// A Link that has nothing to do looks four times a second whether its peer is there, and the keeper once
// whether the files of each stream are. With many agents that is as much as some hundred messages: so all
// Links look at the same moments, and each look is cheap.
//
// # Where TCP does not pass
//
// An agent may come by websocket, which carries the same connection, TLS and all (see package
// tunnel). NATS has websockets of its own, which are not used: theirs end the TLS in which an
// agent proves its name where the websocket does, and that may be at somebody else's proxy. The
// servers dial and listen by themselves, so either end has a piece of its own between: see
// bridge and entrance. A Client dials by itself, and needs no bridge.
//
// # Isolation
//
// On the principal's server every agent has an account of its own, from which nothing leads
// to another's. In it are the agent's connection, which may use six subjects and one
// that leads nowhere (see anchor), and one connection of the principal's process. JetStream
// is in another account. So an agent can say nothing to anyone but the principal, and no
// subject, reply subjects included, that it makes up reaches another's. On the agent's
// server the connection to the principal is likewise in an account without JetStream.
//
// Whose a message is follows from the connection that it was asked on, never from what it
// says: the reader puts together subject and headers itself. What is no message is
// dropped, counted and logged.
//
// An account each is what the attacks have decided for (see attack_test.go, in which leaf nodes
// are written by hand). In an account that agents share, the permissions of each connection
// would be all that keeps them apart, and the server does not apply them to everything: what a
// leaf node publishes on _R_ and $JS.ACK passes, and wildcards may be subscribed to. In an
// account of one's own all of that leads nowhere. A client is refused all of it, and what it says
// beyond its subjects is counted against it, but not hung up on as a leaf node is. It costs little: with 500 leaf nodes connected,
// each with its account, its two streams, its Link and the process's connection to it, the hub's
// process took 390 and 407 KiB of memory for each in two runs of BenchmarkHubMemory, on a busy
// machine of two cores, the other end's TLS connection included.
//
// # Servers elsewhere
//
// A Hub may stand on servers of NATS that are not in its process (HubConfig.Cluster), as a cluster
// that keeps each stream on several. Agents are the same programs, say the same on the same subjects,
// and connect to those servers; only their end that the Hub embeds otherwise is elsewhere:
//
//	                     in the process                   elsewhere
//	who may connect      the server asks us directly      auth callout: it asks by a message (callout)
//	an agent's account   one of its own                   one that all share, without JetStream
//	ways to agents       a connection for each            a few that all share (sharedWire)
//	is it there          its interest in our asks         its connection, as the servers say (calls)
//	to cut it            a call                           a request to the system account, until it is cut
//	what breaks rules    the server's log names it        what the servers list of it, and what it asks
//	streams              the keeper looks at the disk     compared with what they should be (tend)
//
// Who proves which name is decided by the same guard, from the same certificates: a server passes on the
// chain that it has verified. The answer is a user of the agent's six subjects, for as long as its
// certificates hold, signed by the issuer that the servers are told to believe. The servers know one
// user of the principal's, in the account HUB; its connections in AGENTS and SYS it lets in itself.
// If no principal answers, those who are connected stay, and whoever connects is refused after
// auth_callout's timeout and comes again. The next process knows from a stream (roll) by which
// certificates the one before has let them in, and cuts them off as that would have; a connection
// that is not there is closed, as is that of an agent which has shown a password.
//
// In the shared account permissions are all that keeps agents apart. What was found to leak through
// them, and what closes it (external_attack_test.go):
//
//   - An ask may name any subject to be answered on, and we would say the answer there: an agent's
//     asks are answered only where it may hear.
//   - A leaf node that takes the name of another has its server close the other's connection: it is
//     let in by its agent's name only.
//   - _R_ and $JS.ACK pass unchecked: nobody listens to either in that account, since it imports and
//     exports nothing but the anchor, and has no JetStream.
//   - A leaf node may listen to wildcards. It hears of them only its own, but the servers of a
//     cluster would carry to its server all that matches. This cannot be refused on a server, so the
//     principal looks at what leaf nodes listen to every ten seconds, and cuts off who listens to more.
//   - Of another's asks, answers or names nothing is told to it: interest is passed on only within
//     its permissions, and of leaf nodes to leaf nodes not at all (isolate_leafnode_interest).
//
// A read may be answered by a replica that is behind, so what seems to be missing is asked of the
// leader (upToDate), and a loss is believed only once it has been seen for some seconds (intact).
//
// One principal serves on servers elsewhere: see lease.
//
// # Servers in operator mode
//
// Such servers believe what an operator has signed of accounts, and an account of its users. What differs for
// us is a table (realm); what agents say and how they are kept apart is the same, and so are the tests of it.
// As read in nats-server 2.15.2, server/auth.go and auth_callout.go:
//
//   - Who shows no JWT, as an agent does not, is taken for the user in default_sentinel, client and leaf node
//     alike (processClientOrLeafAuthentication). It must be a bearer user, of an account whose JWT has
//     authorization.auth_users: then whoever is none of these is asked for in that account, and never is
//     what the sentinel is. So that account is HUB, in which nobody else is: the questions are nobody's to
//     hear. What an agent says beside stays where it was, since nobody looks at what a bearer signs.
//   - The answer must be signed by a key of HUB, and the rights in it by one of the account that they are for,
//     which is named as issuer_account and must be in HUB's authorization.allowed_accounts; the audience says
//     nothing (assignAccountAndPermissions). One key may be a signing key of both. One with a role (scope)
//     would give the rights of the role in place of ours.
//   - While it is asked for, a connection is in HUB as the sentinel, whose limits count; a leaf node is told
//     nothing before it is let in (processLeafNodeConnect), and then nothing of HUB is left to it.
//   - No server lets anybody into its system account by an answer unless that is allowed, too, so the
//     principal comes there by creds.
//
// Which account is AGENTS, and whether all of this is so, the principal finds in the JWTs that the servers
// have (ACCOUNTZ), before it answers anybody. Its own connections in AGENTS come as agents do, by the sentinel
// and a token: so a Hub that has started has seen that agents can.
//
// # When a server elsewhere goes
//
// Connections are spread over the servers, and made to the next one at once. What was under way is asked or
// said again: a message by its id after 0.5 s, a read after 1 s of silence, an answer to an agent after 2 s.
// Servers ask the principal who may connect on connections to all of them, so that whoever has to come
// again, this process included, does not wait for auth_callout's timeout. While the replicas of a stream
// have no leader, who needs one waits for it, and looks every 0.6 s, rather than fail and come again later
// and later. What remains is the servers' own, and cannot be set: followers of a leader that is killed wait
// for 4 to 9 seconds, each for a random time, before they choose another (nats-server 2.15.2,
// server/raft.go, minElectionTimeout). The first of two needs 5.5 s in the median, and more than 7.4 s once
// in ten times. A server that is drained (SIGUSR2) hands on what it leads before it goes.
//
// How long nothing came to one of four flows of 20 messages a second, on three servers and a machine of two
// cores that had much else to do (e2e/natscluster -rounds):
//
//	                                     least    median   in 9 of 10   most    times
//	a server is killed that leads        2.4 s    5.2 s    7.1 s        8.2 s   87
//	one that leads nothing of the flow   0.1 s    0.6 s    1.1 s        1.2 s   49
//	one is drained, and restarted        0.1 s    0.5 s    0.7 s        1.7 s   16
//	all three are, one by one            0.4 s    0.7 s    1.2 s        1.2 s   32
//	the same by SIGTERM, not drained     0.6 s    1.6 s    3.0 s        3.5 s   36
//	the principal is killed, and starts  0.8 s    2.6 s    4.1 s        5.4 s   68
//
// Of the last, to connect takes 0.3 to 0.6 s; the rest grows with the Applications, of which there were 500
// at first and 4,000 in the end.
//
// # What an agent can make the principal hold
//
// A log, and a copy, take so many bytes (Quota) and so many keys: the server keeps each key in
// memory. An agent has a few connections at once, and whoever opens more loses the oldest; each
// has a bounded number of subscriptions, and of bytes that wait for one who does not read. Of
// an answer the rows and headers are bounded, and what it inflates to (maxSqueezed). A copy that is full, and an agent that breaks the
// rules, are Troubles of that agent, and the log names it.
package natslink
