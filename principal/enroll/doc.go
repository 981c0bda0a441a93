// Package enroll lets agents ask to be registered. An agent that proves its name and is not
// registered says what it wants to be, its Wish, each time it is refused. A Desk keeps who
// waits, for as long as they come again, and, where no approval is needed, has them registered.
//
// What an agent says proves nothing but that it says so. Only its name is proven. Its mode is
// taken once, as it is registered, and of its labels those that a Policy allows. Whom nobody
// could have given a certificate or a password is never heard of here; all that is kept is
// bounded all the same.
package enroll
