package inquiry

// Limit lowers what an agent may answer to what a test can afford.
func (c *Client) Limit(objects, kept int) { c.limits = limits{objects, kept} }
