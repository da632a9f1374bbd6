-- Indexes for filters by names and attributes in large fleets.

CREATE INDEX device_attributes_by_value ON device_attributes (name, value);
CREATE INDEX device_descriptions_by_name ON device_descriptions (name);
