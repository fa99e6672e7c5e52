-- Which of these webhooks were delivered. The scope is no partner's: a partner's id has no slash.
SELECT key FROM answers WHERE scope = '/webhooks' AND key = ANY ($1::text[])
