-- Indexes for large fleets: for filters of the devices, and for the start of a server.

CREATE INDEX devices_by_type ON devices (endpoint_type);
CREATE INDEX devices_by_creation ON devices (created_at);
CREATE INDEX devices_by_update ON devices (updated_at);
CREATE INDEX subscriptions_pending ON subscriptions (device_id) WHERE state = 'pending';
-- Observations to start or to cancel. These are few at any time.
CREATE INDEX resources_to_observe ON resources (device_id) WHERE observing <> subscribed;
