# All wheels from source, with TensorFlow for CPUs.
FROM python:3.12-slim

WORKDIR /towerpack
COPY . .
RUN pip install --no-cache-dir "./packages/dataflow[datasets,image]" ./packages/inputsource ./packages/layers \
    ./packages/callbacks "./packages/trainers[rl]" "./packages/compat[full]"

ENV TF_CPP_MIN_LOG_LEVEL=2
CMD ["python", "examples/digits_lenet.py"]
