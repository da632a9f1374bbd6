-- Names of the states of a subscription.

UPDATE subscriptions SET state = 'pending' WHERE state = 'wanted';
UPDATE subscriptions SET state = 'rejected' WHERE state = 'refused';
