"""Third-party programs that run with the interface, and calls of the public API that are not supported.

Programs that run
-----------------

The interface uses the names of a public API, so that programs for that API run unmodified. A test runs every call of
these libraries, unmodified from the package indexes, against a server and compares the response:

- ``mbed-cloud-sdk`` 2.2.0 of PyPI and 2.6.10 of npm, from the vendor: devices, saved queries, device events, resources,
  values, subscriptions, presubscriptions, polls and webhooks. Use ``ConnectAPI({"host": URL, "api_key": KEY})`` in
  Python and ``new ConnectApi({host: URL, apiKey: KEY})`` in JavaScript. In JavaScript, ``SDK`` always uses ``https``:
  set ``--tls-cert`` and ``--tls-key``, or use a proxy. Node trusts a certificate of your own by
  ``NODE_EXTRA_CA_CERTS``.
- ``mbed-connector-api`` 1.0.4 of PyPI and 3.0.0 of npm, for the first versions of that API: ``connector(KEY, URL)`` and
  ``new MbedConnectorApi({accessKey: KEY, host: URL})``. The PyPI package is written for Python 2. ``mirror-server help
  older-calls`` describes the calls that they use.

These libraries identify a device by its id, which is in the lists of devices. Behavior to know:

- Their ``deleteAllSubscriptions`` deletes the presubscription rules, as in the later API, and keeps subscriptions to
  resources. ``deleteEndpointSubscriptions`` ends those.
- The vendor's ``ConnectApi`` for JavaScript starts another poll with each subscription. That poll gets 409, and the
  library gives up after three attempts. One poll continues; ``DELETE /v2/notification/pull`` ends it.
- ``filter`` of a saved query uses the field names of the interface, such as ``endpoint_type``, in Python.

Calls that are not supported
----------------------------

A path that does not exist returns 404, with the advice to check it.

- Accounts: users, groups, policies, sign-in and keys. ``mirror-server keys`` makes keys.
- Certificates, pre-shared keys and bootstrap. ``mirror-server devices`` sets which devices may connect.
- Enrollment, and devices that a program creates or deletes. A device appears when it registers, and its reported values
  stay.
- Device groups. Custom attributes and saved queries select devices.
- Firmware: images, manifests, campaigns.
- Metrics. ``GET /metrics`` is for Prometheus.
- Billing, and branding of a portal.
- The version of the service at ``/``, where this server has its web page.
"""
