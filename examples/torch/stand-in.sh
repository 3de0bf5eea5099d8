#!/bin/sh
# Stands for train.py where there is neither GPU nor PyTorch: mt-worker trains a fully connected network on a processor,
# wider for a larger model. For rehearsals: TRAIN=examples/torch/stand-in.sh campaign.sh --survey --device cpu
set -eu
model=
while [ $# -gt 0 ]; do
    case $1 in
    --model) model=$2; shift ;;
    *) echo "stand-in.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
# Neurons: roughly in proportion to the square root of the operations of the model.
case $model in
alexnet) width=96 ;;
mobilenet_v3_large | shufflenet_v2_x1_0) width=64 ;;
resnet18) width=160 ;;
resnet34) width=224 ;;
resnet50 | densenet121) width=256 ;;
vgg16) width=320 ;;
resnet101) width=352 ;;
*) echo "stand-in.sh: unknown model $model" >&2; exit 2 ;;
esac
exec mt-worker --device cpu --threads 1 --width "$width" "$@"
