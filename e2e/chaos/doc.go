// Package chaos lets trouble of all kinds befall a principal and its agents at once, while
// people work on both sides, and demands that in the end nothing is lost, nothing is done
// twice, and nothing is deleted that nobody has ordered to be.
//
// The programs are processes of the built binaries, in front of real API servers, and each
// test has them talk over another transport, with a managed and an autonomous agent beside
// each other. Between each program and its API server stands a [gate], which fails as API
// servers do, and between each agent and the principal a line of toxiproxy. The programs are
// killed, with what they have stored or without.
//
// What happens when is a plan: a pure function of a seed, which the test prints and takes
// again by -seed. The plan is drawn from a model of what is to be there, so the model knows
// what must be left, and which deletions were ordered. A run is a number of rounds, each of
// which is
//
//	head    people work while all is well, and what they have done arrives;
//	storm   they go on while everything fails that can;
//	calm    nothing fails any more, and the judge looks at everything.
//
// People create, edit and delete, in all ways of deleting; they ask for syncs and refreshes, and
// terminate syncs, some of which would not end by themselves; they have objects ignored and
// heeded again; and others do to copies what they should not. Over one of the transports, by
// the seed, the managed agent's Applications are mapped by their destinations.
//
// The fuse of an agent holds back what is absent if it is too much, as it should. So a plan
// deletes in a storm only so many objects whose deletion may go unseen as the fuse lets go,
// and every round but the first begins with programs that have forgotten the former one.
//
// Argo CD's controller is played, see [controller].
package chaos
