"""Programs of others that run with the interface, and the calls of the public API that are out.

Programs that run
-----------------

The interface has the names of a public API, so that a program written for that runs as it is. Of these libraries, taken
unmodified from the package indexes, every call is run against a server by a test, and its answer compared:

- ``mbed-cloud-sdk`` 2.2.0 of PyPI and 2.6.10 of npm, the vendor's: devices, saved queries, device events, resources,
  values, subscriptions, presubscriptions, polls and webhooks. ``ConnectAPI({"host": URL, "api_key": KEY})`` in Python,
  ``new ConnectApi({host: URL, apiKey: KEY})`` in JavaScript, where ``SDK`` speaks ``https`` whatever it is told:
  ``--tls-cert`` and ``--tls-key``, or a proxy; Node takes a certificate of your own by ``NODE_EXTRA_CA_CERTS``.
- ``mbed-connector-api`` 1.0.4 of PyPI and 3.0.0 of npm, for the first versions of that API: ``connector(KEY, URL)``,
  ``new MbedConnectorApi({accessKey: KEY, host: URL})``. The one of PyPI is written for Python 2. What they ask tells
  ``mirror-server help older-calls``.

They name a device by its id, which the lists of devices have. What they do by themselves:

- Their ``deleteAllSubscriptions`` takes the presubscription rules away, as the later API has it, and leaves
  subscriptions to resources; ``deleteEndpointSubscriptions`` ends those.
- The vendor's ``ConnectApi`` for JavaScript begins another poll with each subscription. It is told 409 for it and gives
  up after three times; one goes on, and ``DELETE /v2/notification/pull`` ends it.
- ``filter`` of a saved query names fields as the interface does, ``endpoint_type``, in Python.

Calls that are out
------------------

A path that is not here is answered by 404, with the words to check it.

- accounts: users, groups, policies, sign-in and keys. ``mirror-server keys`` makes keys.
- certificates, pre-shared keys and bootstrap: ``mirror-server devices`` says which devices may come.
- enrolment, and devices made and deleted by a program: a device comes by registering, and what it reported stays.
- device groups: custom attributes and saved queries select devices.
- firmware: images, manifests, campaigns.
- metrics: ``GET /metrics`` tells Prometheus.
- billing, and branding of a portal.
- the service's own version at ``/``, which is a page for people.

Source: wire.md 0 to 6 and 9.
"""
