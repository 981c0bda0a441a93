// Package policy decides, on a spoke, which live requests of the hub reach its API server. The
// hub is not trusted with more than it is told here: whatever it asks, the agent that runs this
// acts with its own rights, and of these with no more than the policy leaves.
//
// What is decided from the request alone is a table, rules: the first rule that fits decides
// whether the request passes, is refused, or passes if a condition holds. Conditions are about
// objects, which are looked up: an object is managed if it is tracked by an Application of the
// spoke, the way that argocd-cm says Argo CD tracks, or owned by one that is, within five
// levels. testdata/cases.txt shows what comes of it.
//
// What is checked is what is touched, as far as the API server can be told: what is deleted or
// patched carries the UID of the object that was looked up, a status its version too, and a body
// that was read is sent on as it was understood. Three gaps remain, each as long as one request takes. Reading has no
// precondition: an object, a pod's log or a shell in it may be those of a namesake that has just
// taken its place. An object may cease to be tracked after it was looked up. And an apply of
// what is not there may meet an object that has just been made. What was looked up of owners,
// Applications and settings is used for five seconds.
//
// A Secret is never written, and what it holds never leaves: values are masked in whatever is
// answered. Who may create pods or run commands in them can read Secrets by these; so can who
// may have Applications deployed.
package policy
